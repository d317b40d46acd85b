package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
)

// releases are the API releases that a vCenter of some version serves, oldest first.
var releases = []string{"8.0.1.0", "8.0.2.0", "8.0.3.0", "9.0.0.0", "9.1.0.0"}

// served are the releases up to the one of the spec.
func (s *Server) served() []string {
	i := slices.Index(releases, s.Options.Spec.APIRelease)
	return releases[:i+1]
}

// RouteVIJSON registers the VI/JSON wire.
func (s *Server) RouteVIJSON(mux *http.ServeMux) {
	mux.HandleFunc("POST /sdk/vim25/{release}/{type}/{moid}/{name}", s.serveMethod)
	mux.HandleFunc("POST /sdk/vim25/{release}/pbm/{type}/{moid}/{name}", func(w http.ResponseWriter, r *http.Request) {
		// Storage policies came into VI/JSON with 8.0 U3.
		if slices.Index(releases, r.PathValue("release")) < slices.Index(releases, "8.0.3.0") {
			http.NotFound(w, r)
			return
		}
		s.serveMethod(w, r)
	})
	mux.HandleFunc("GET /sdk/vim25/{release}/{type}/{moid}/{name}", s.serveProperty)
	mux.HandleFunc("POST /api/vcenter/system", s.serveHello)
}

// serveHello agrees on a release: the client's list is by preference.
func (s *Server) serveHello(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("action") != "hello" {
		http.NotFound(w, r)
		return
	}
	s.Guarded(w, r, []string{RestName(r)}, false, func(out *traffic.Answer) {
		var request struct {
			Releases []string `json:"api_releases"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			APIError(out, http.StatusBadRequest, "INVALID_ARGUMENT", err.Error())
			return
		}
		agreed := ""
		if i := slices.IndexFunc(request.Releases, func(r string) bool { return slices.Contains(s.served(), r) }); i >= 0 {
			agreed = request.Releases[i]
		}
		traffic.WriteJSON(out, http.StatusOK, map[string]string{"api_release": agreed})
	})
}

// serveMethod calls a method: the body is its parameters.
func (s *Server) serveMethod(w http.ResponseWriter, r *http.Request) {
	this, name := vim.Ref{Type: r.PathValue("type"), Value: r.PathValue("moid")}, r.PathValue("name")
	kind, ok := vim.TypeByName(name)
	if vim.OfPolicies(this) != strings.Contains(r.URL.Path, "/pbm/") {
		http.NotFound(w, r)
		return
	}
	if !ok || !slices.Contains(s.served(), r.PathValue("release")) || !vim.HasThis(kind) {
		http.NotFound(w, r)
		return
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	k := &core.Call{Wire: traffic.VIJSON, Token: r.Header.Get(TokenHeader), Request: r}
	body, err := decodeParameters(content, name, kind)
	if err != nil {
		s.Counters.Add(traffic.VIJSON, name)
		sendJSON(w, nil, vim.FaultBody(err.Error(), &types.InvalidRequest{}), nil)
		return
	}
	body.Elem().FieldByName("This").Set(reflect.ValueOf(this))
	out := s.perform(k, this, name, body.Interface())
	if token := sessionOf(out); token != "" {
		w.Header().Set(TokenHeader, token)
	}
	sendJSON(w, k, k.Result, nil)
}

// decodeParameters decodes a body strictly; none at all is right for a method without parameters.
func decodeParameters(content []byte, name string, kind reflect.Type) (reflect.Value, error) {
	body := reflect.New(kind)
	var raw any = map[string]any{}
	if len(bytes.TrimSpace(content)) != 0 {
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.UseNumber()
		if err := decoder.Decode(&raw); err != nil {
			return body, fmt.Errorf("the body is no JSON: %w", err)
		}
	}
	object, ok := raw.(map[string]any)
	if !ok {
		return body, fmt.Errorf("the body must be an object")
	}
	// vCenter's name is the request type's; govmomi sends the method's where the two are one type to it.
	if given, ok := object["_typeName"]; ok {
		if given != name && given != strings.TrimSuffix(name, "_Task")+"RequestType" {
			return body, fmt.Errorf("_typeName %v in a call of %s", given, name)
		}
		delete(object, "_typeName")
	}
	checked, err := strict(name, object, kind)
	if err != nil {
		return body, err
	}
	normal, err := json.Marshal(checked)
	if err != nil {
		return body, err
	}
	return body, types.NewJSONDecoder(bytes.NewReader(normal)).Decode(body.Interface())
}

// serveProperty reads one top-level property.
func (s *Server) serveProperty(w http.ResponseWriter, r *http.Request) {
	this, name := vim.Ref{Type: r.PathValue("type"), Value: r.PathValue("moid")}, r.PathValue("name")
	if !slices.Contains(s.served(), r.PathValue("release")) || strings.Contains(name, ".") {
		http.NotFound(w, r)
		return
	}
	k := &core.Call{Wire: traffic.VIJSON, Token: r.Header.Get(TokenHeader), Request: r, Alias: this.Type + "." + name}
	if this.Type == "ServiceInstance" && name == "content" {
		s.perform(k, this, "RetrieveServiceContent", &types.RetrieveServiceContent{This: this})
		sendJSON(w, k, k.Result, nil)
		return
	}
	s.perform(k, vim.PropertyCollector, "RetrievePropertiesEx", vim.RetrieveProperty(this, name))
	sendJSON(w, k, k.Result, func(v any) any { return propertyOf(v, w) })
}

// propertyOf picks the value out of a retrieval's answer.
func propertyOf(value any, w http.ResponseWriter) any {
	result, _ := value.(*types.RetrieveResult)
	if result == nil || len(result.Objects) == 0 {
		return nil
	}
	object := result.Objects[0]
	if len(object.MissingSet) != 0 {
		return object.MissingSet[0].Fault.Fault
	}
	if len(object.PropSet) == 0 {
		return nil
	}
	v := reflect.Indirect(reflect.ValueOf(object.PropSet[0].Val))
	if v.Kind() == reflect.Struct && strings.HasPrefix(v.Type().Name(), "ArrayOf") {
		return v.Field(0).Interface()
	}
	return v.Interface()
}

// sendJSON writes an answer as vCenter does: the bare return value, 204 for none, 500 with the fault itself.
func sendJSON(w http.ResponseWriter, k *core.Call, res soap.HasFault, pick func(any) any) {
	out := traffic.NewAnswer()
	out.Header().Set("Content-Type", "application/json")
	encodeAnswer(out, res, pick)
	if k != nil && k.Verdict != nil {
		k.Verdict(out)
	}
	out.Send(w)
}

func encodeAnswer(out *traffic.Answer, res soap.HasFault, pick func(any) any) {
	if res == nil {
		out.Replace(http.StatusInternalServerError, "text/plain", "the simulator gave no answer")
		return
	}
	if f := res.Fault(); f != nil {
		message := f.String
		if detail, ok := f.Detail.Fault.(types.BaseMethodFault); ok && message == "" {
			message = vim.FaultText(detail)
		}
		encodeFault(out, message, f.Detail.Fault)
		return
	}
	field := reflect.ValueOf(res).Elem().FieldByName("Res").Elem().FieldByName("Returnval")
	var value any
	if field.IsValid() {
		value = field.Interface()
	}
	if pick != nil {
		value = pick(value)
		if f, ok := value.(types.BaseMethodFault); ok && f != nil {
			encodeFault(out, "", f)
			return
		}
	}
	if vim.Empty(value) {
		out.Status = http.StatusNoContent
		return
	}
	data, err := EncodeValue(value)
	if err != nil {
		out.Replace(http.StatusInternalServerError, "text/plain", err.Error())
		return
	}
	_, _ = out.Write(data)
}

// EncodeValue boxes nothing at the root: scalars are bare, arrays are arrays.
func EncodeValue(value any) ([]byte, error) {
	v := reflect.Indirect(reflect.ValueOf(value))
	if _, ok := v.Interface().(time.Time); ok || v.Kind() != reflect.Struct && v.Kind() != reflect.Slice {
		return json.Marshal(v.Interface())
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 {
		items := make([]json.RawMessage, v.Len())
		for i := range items {
			item, err := EncodeValue(v.Index(i).Interface())
			if err != nil {
				return nil, err
			}
			items[i] = item
		}
		return json.Marshal(items)
	}
	var out bytes.Buffer
	if err := types.NewJSONEncoder(&out).Encode(v.Interface()); err != nil {
		return nil, err
	}
	data := bytes.TrimSpace(out.Bytes())
	// vCenter leaves out what is unset, and an array without elements is one. No text can be mistaken for these: its quotes
	// would be escaped.
	for _, unset := range []string{`,"val":null`, `,"fault":null`} {
		data = bytes.ReplaceAll(data, []byte(unset), nil)
	}
	data = bytes.ReplaceAll(data, []byte(`"_value":null`), []byte(`"_value":[]`))
	if bytes.Contains(data, []byte(localizedFault)) {
		return bareFaults(data)
	}
	return data, nil
}

const localizedFault = `"LocalizedMethodFault"`

// bareFaults takes nested faults out of the wrapper that only SOAP has around them.
func bareFaults(data []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(bare(value))
}

func bare(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = bare(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = bare(v[key])
		}
		fault, ok := v["fault"].(map[string]any)
		if !ok || v["_typeName"] != "LocalizedMethodFault" {
			break
		}
		fault["faultstring"] = v["localizedMessage"]
		if fault["faultMessage"] == nil {
			fault["faultMessage"] = []any{}
		}
		return fault
	}
	return value
}

// encodeFault writes the fault as the body, with its text as one more member.
func encodeFault(out *traffic.Answer, message string, detail any) {
	out.Status = http.StatusInternalServerError
	v := reflect.Indirect(reflect.ValueOf(detail))
	data, err := EncodeValue(v.Interface())
	if err != nil {
		out.Replace(http.StatusInternalServerError, "text/plain", err.Error())
		return
	}
	name := types.VmomiTypeName(v.Type())
	rest := strings.TrimPrefix(string(data), fmt.Sprintf("{%q:%q", "_typeName", name))
	text, _ := json.Marshal(message)
	head := fmt.Sprintf(`{"_typeName":%q,"faultstring":%s`, wireName(v.Type()), text)
	if !strings.Contains(rest, `"faultMessage"`) {
		head += `,"faultMessage":[]`
	}
	_, _ = out.Write([]byte(head + rest))
}

// wireName is the VMODL name of a fault. The library emits some under the alias that WSDL has for them.
func wireName(t reflect.Type) string {
	name := types.VmomiTypeName(t)
	if base, ok := strings.CutSuffix(name, "Fault"); ok {
		if original, known := vim.TypeByName(base); known && original.ConvertibleTo(t) {
			return base
		}
	}
	return name
}
