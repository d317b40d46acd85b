package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
)

// govmomi reads XML leniently: the order of elements, unknown ones and missing types all pass. vCenter insists on the
// WSDL. strictSOAP walks the elements along the Go type, whose fields are in the WSDL's order, before govmomi reads them.

const (
	InstanceSpace = "http://www.w3.org/2001/XMLSchema-instance"
	vimSpace      = "urn:vim25"
)

// element is an XML element as it came.
type element struct {
	Name     xml.Name
	typ      string // xsi:type without its prefix
	refersTo string // the attribute type of a reference
	text     []byte
	children []*element
}

// ReadMethod reads the element of the call out of an envelope.
func ReadMethod(content []byte) (*element, error) {
	decoder := xml.NewDecoder(bytes.NewReader(content))
	root := &element{}
	open := []*element{root}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the body is no XML: %w", err)
		}
		inner := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			child := newElement(token)
			inner.children = append(inner.children, child)
			open = append(open, child)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			inner.text = append(inner.text, token...)
		}
	}
	for _, envelope := range root.children {
		for _, part := range envelope.children {
			if part.Name.Local == "Body" && len(part.children) == 1 {
				return part.children[0], nil
			}
		}
	}
	return nil, fmt.Errorf("the envelope must hold a body with one call")
}

func newElement(start xml.StartElement) *element {
	e := &element{Name: start.Name}
	for _, a := range start.Attr {
		switch {
		case a.Name.Local == "type" && a.Name.Space == InstanceSpace:
			e.typ = a.Value[strings.LastIndex(a.Value, ":")+1:]
		case a.Name.Local == "type" && a.Name.Space == "":
			e.refersTo = a.Value
		}
	}
	return e
}

// refusedSOAP answers InvalidRequest if vCenter would not understand the call, and gives the body back otherwise.
func (s *Server) refusedSOAP(w http.ResponseWriter, r *http.Request) bool {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return true // the client is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(content))
	method, err := ReadMethod(content)
	name := "malformed"
	if err == nil {
		name = method.Name.Local
		err = StrictMethod(method)
	}
	if err == nil {
		return false
	}
	s.Counters.Add(traffic.SOAP, name)
	var why bytes.Buffer
	_ = xml.EscapeText(&why, []byte(err.Error()))
	RefuseSOAP(w, "ClientFaultCode", why.String(), "InvalidRequest", "")
	return true
}

// RefuseSOAP answers with a fault; text and detail are XML.
func RefuseSOAP(w http.ResponseWriter, code, text, fault, detail string) {
	out := traffic.NewAnswer()
	out.Replace(http.StatusInternalServerError, "text/xml; charset=utf-8", xml.Header+
		`<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="`+InstanceSpace+`">`+
		`<soapenv:Body><soapenv:Fault><faultcode>`+code+`</faultcode><faultstring>`+text+`</faultstring>`+
		`<detail><`+fault+`Fault xmlns="urn:vim25" xsi:type="`+fault+`">`+detail+`</`+fault+`Fault></detail>`+
		`</soapenv:Fault></soapenv:Body></soapenv:Envelope>`)
	out.Send(w)
}

// StrictMethod checks a call; one that nobody knows is left to those who say so.
func StrictMethod(method *element) error {
	kind, ok := vim.TypeByName(method.Name.Local)
	if !ok || !vim.HasThis(kind) {
		return nil
	}
	if method.Name.Space != vimSpace {
		return fmt.Errorf("%s: must be in the namespace %s", method.Name.Local, vimSpace)
	}
	return strictFields(method.Name.Local, method, kind)
}

// strictElement checks an element against the declared type.
func strictElement(path string, e *element, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == vim.MoRefType:
		if e.refersTo == "" || len(e.children) != 0 {
			return fmt.Errorf("%s: a reference has an attribute type and nothing but an id inside", path)
		}
		return nil
	case t.Kind() == reflect.Interface:
		return strictSubstitute(path, e, t)
	case t.Kind() == reflect.Struct && t != timeType:
		if name := types.VmomiTypeName(t); e.typ != "" && e.typ != name {
			return fmt.Errorf("%s: xsi:type %s where %s is declared", path, e.typ, name)
		}
		return strictFields(path, e, t)
	}
	if len(e.children) != 0 {
		return fmt.Errorf("%s: must be text", path)
	}
	return strictText(path, string(e.text), t)
}

// strictSubstitute checks an element whose declared type is a base type or Any: xsi:type tells what it is.
func strictSubstitute(path string, e *element, t reflect.Type) error {
	anything := t.NumMethod() == 0
	name := e.typ
	if name == "" && anything {
		return fmt.Errorf("%s: xsi:type is missing", path)
	}
	if name == "" {
		name = strings.TrimPrefix(t.Name(), "Base")
	}
	if name == "base64Binary" {
		name = "binary"
	}
	if scalar, ok := primitives[name]; ok && anything {
		return strictElement(path, &element{Name: e.Name, text: e.text, children: e.children}, scalar)
	}
	actual, ok := vim.TypeByName(name)
	if !ok {
		return fmt.Errorf("%s: %q is no type", path, name)
	}
	if !anything && !reflect.PointerTo(actual).Implements(t) {
		return fmt.Errorf("%s: %s does not fit where %s is declared", path, name, strings.TrimPrefix(t.Name(), "Base"))
	}
	if actual.Kind() != reflect.Struct || actual == vim.MoRefType {
		return strictElement(path, e, actual)
	}
	return strictFields(path, e, actual)
}

// field is one element that a type has, in its place.
type field struct {
	name     string
	typ      reflect.Type
	list     bool
	required bool
}

var fieldCache sync.Map // reflect.Type → []field

// fieldsOf are the elements of a type in the order of the WSDL: those of the base type first.
func fieldsOf(t reflect.Type) []field {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("xml"), ",")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			fields = append(fields, fieldsOf(f.Type)...)
		case name != "" && name != "-":
			list := f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() != reflect.Uint8
			typ := f.Type
			if list {
				typ = typ.Elem()
			}
			// A list without members is no element at all; the JSON tags know best what else is optional.
			optional := list || f.Type.Kind() == reflect.Pointer || strings.Contains(options+f.Tag.Get("json"), "omitempty")
			fields = append(fields, field{name, typ, list, !optional})
		}
	}
	fieldCache.Store(t, fields)
	return fields
}

// strictFields checks names, order, number and content of the elements inside.
func strictFields(path string, e *element, t reflect.Type) error {
	fields := fieldsOf(t)
	seen := make([]bool, len(fields))
	last := 0
	for _, child := range e.children {
		name := child.Name.Local
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		switch {
		case at < 0:
			return fmt.Errorf("%s: %s has no element %q", path, types.VmomiTypeName(t), name)
		case child.Name.Space != vimSpace:
			return fmt.Errorf("%s.%s: must be in the namespace %s", path, name, vimSpace)
		case at < last:
			return fmt.Errorf("%s: in %s the element %q belongs before %q", path, types.VmomiTypeName(t), name, fields[last].name)
		case seen[at] && !fields[at].list:
			return fmt.Errorf("%s: %s has one element %q only", path, types.VmomiTypeName(t), name)
		}
		seen[at], last = true, at
		if err := strictElement(path+"."+name, child, fields[at].typ); err != nil {
			return err
		}
	}
	for i, f := range fields {
		if f.required && !seen[i] {
			return fmt.Errorf("%s: %s needs the element %q", path, types.VmomiTypeName(t), f.name)
		}
	}
	return nil
}

// strictText checks what XML Schema would of a text.
func strictText(path, text string, t reflect.Type) error {
	wrong := func(err error) error {
		if err != nil {
			return fmt.Errorf("%s: %q is no %s", path, text, t.Kind())
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Struct: // a time
		_, err := time.Parse(time.RFC3339Nano, text)
		return wrong(err)
	case reflect.String:
		if enum, ok := reflect.Zero(t).Interface().(interface{ Strings() []string }); ok && text != "" &&
			!slices.Contains(enum.Strings(), text) {
			return fmt.Errorf("%s: %q is no %s", path, text, t.Name())
		}
		return nil
	case reflect.Bool:
		if !slices.Contains([]string{"true", "false", "1", "0"}, text) {
			return fmt.Errorf("%s: %q is no boolean", path, text)
		}
		return nil
	case reflect.Float32, reflect.Float64:
		_, err := strconv.ParseFloat(text, t.Bits())
		return wrong(err)
	case reflect.Slice:
		_, err := base64.StdEncoding.DecodeString(text)
		return wrong(err)
	}
	_, err := strconv.ParseInt(text, 10, t.Bits())
	return wrong(err)
}
