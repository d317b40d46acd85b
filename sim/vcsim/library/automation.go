package library

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
	"layercake.invalid/sim/vcsim/wire"
)

// The library has the content libraries only in the form of /rest. vCenter's own form since 7.0 is /api: bare JSON, ids
// in the path, maps as objects. These routes are a translation of the one into the other.

// form is one route of /api and its form in /rest.
type form struct {
	pattern string
	path    string // {…} are members of the pattern
	query   string
	wrap    string // the member of the body in which /rest wants the parameters
	status  int
	edit    func(map[string]any)
}

const (
	libraryAt = "/rest" + libraryPath
	tagging   = "/rest/com/vmware/cis/tagging"
)

var forms = []form{
	{pattern: "GET /api/content/library", path: libraryAt},
	{pattern: "POST /api/content/library?action=find", path: libraryAt, query: "~action=find", wrap: "spec"},
	{pattern: "GET /api/content/library/{id}", path: libraryAt + "/id:{id}"},
	{pattern: "GET /api/content/library/item", path: libraryAt + "/item", query: "library_id"},
	{pattern: "POST /api/content/library/item?action=find", path: libraryAt + "/item", query: "~action=find", wrap: "spec"},
	{pattern: "GET /api/content/library/item/{id}", path: libraryAt + "/item/id:{id}"},
	// {what} is file: with the word itself, the mux finds two patterns for a session called so.
	{pattern: "GET /api/content/library/item/{id}/{what}", path: libraryAt + "/item/file", query: "library_item_id={id}"},
	{pattern: "POST /api/content/library/item/download-session", path: libraryAt + "/item/download-session", wrap: "create_spec", status: http.StatusCreated},
	{pattern: "GET /api/content/library/item/download-session/{id}", path: libraryAt + "/item/download-session/id:{id}"},
	{pattern: "DELETE /api/content/library/item/download-session/{id}", path: libraryAt + "/item/download-session/id:{id}"},
	{pattern: "GET /api/content/library/item/download-session/{id}/file", path: libraryAt + "/item/downloadsession/file", query: "download_session_id={id}"},
	{pattern: "POST /api/content/library/item/download-session/{id}/file?action=prepare", path: libraryAt + "/item/downloadsession/file/id:{id}", query: "~action=prepare"},
	{pattern: "POST /api/content/library/subscribed-item/{id}?action=sync", path: libraryAt + "/subscribed-item/id:{id}", query: "~action=sync", status: http.StatusNoContent},
	{pattern: "POST /api/vcenter/ovf/library-item/{id}?action=deploy", path: "/rest/com/vmware/vcenter/ovf/library-item/id:{id}", query: "~action=deploy", edit: listMappings},
	{pattern: "POST /api/vcenter/ovf/library-item/{id}?action=filter", path: "/rest/com/vmware/vcenter/ovf/library-item/id:{id}", query: "~action=filter"},
	{pattern: "GET /api/cis/tagging/category", path: tagging + "/category"},
	{pattern: "POST /api/cis/tagging/category", path: tagging + "/category", wrap: "create_spec", status: http.StatusCreated},
	{pattern: "GET /api/cis/tagging/category/{id}", path: tagging + "/category/id:{id}"},
	{pattern: "POST /api/cis/tagging/tag", path: tagging + "/tag", wrap: "create_spec", status: http.StatusCreated},
	{pattern: "POST /api/cis/tagging/tag?action=list-tags-for-category", path: tagging + "/tag/id:{category_id}", query: "~action=list-tags-for-category"},
	{pattern: "GET /api/cis/tagging/tag/{id}", path: tagging + "/tag/id:{id}"},
	{pattern: "POST /api/cis/tagging/tag-association?action=list-attached-tags", path: tagging + "/tag-association", query: "~action=list-attached-tags"},
	{pattern: "POST /api/cis/tagging/tag-association/{id}?action=attach", path: tagging + "/tag-association/id:{id}", query: "~action=attach"},
	{pattern: "POST /api/cis/tagging/tag-association/{id}?action=detach", path: tagging + "/tag-association/id:{id}", query: "~action=detach"},
}

// routeAPI registers the routes; those that differ by action only share a handler.
func (l *Libraries) routeAPI(mux *http.ServeMux) {
	byPath := map[string]map[string]form{}
	for _, f := range forms {
		pattern, action, _ := strings.Cut(f.pattern, "?action=")
		if byPath[pattern] == nil {
			byPath[pattern] = map[string]form{}
		}
		byPath[pattern][action] = f
	}
	for pattern, byAction := range byPath {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			action := r.URL.Query().Get("action")
			f, ok := byAction[action]
			for _, route := range libraryRoutes {
				if !ok && route.shared && action == route.action && pattern == route.verb+" "+route.api {
					l.serveLibrary(w, r, route)
					return
				}
			}
			if what := r.PathValue("what"); !ok || what != "" && what != "file" {
				l.serveREST(w, r)
				return
			}
			l.serveForm(w, r, f)
		})
	}
}

func (l *Libraries) serveForm(w http.ResponseWriter, r *http.Request, f form) {
	old, err := f.translate(r)
	if err != nil {
		wire.APIError(w, http.StatusBadRequest, "INVALID_ARGUMENT", err.Error())
		return
	}
	l.wire.Guarded(w, r, []string{wire.RestName(r), wire.RestName(old)}, true, func(out *traffic.Answer) {
		l.forward(out, old)
		f.unwrap(out)
	})
}

// translate says the request in the form of /rest.
func (f form) translate(r *http.Request) (*http.Request, error) {
	fill := func(text string) string { return strings.ReplaceAll(text, "{id}", r.PathValue("id")) }
	old := r.Clone(r.Context())
	old.URL = &url.URL{Path: fill(f.path), RawQuery: fill(f.query)}
	if f.query == "library_id" {
		old.URL.RawQuery = url.Values{f.query: r.URL.Query()[f.query]}.Encode()
	}
	if r.Method != http.MethodPost {
		return old, nil
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil && err != io.EOF {
		return nil, err
	}
	if category, ok := body["category_id"].(string); ok {
		old.URL.Path = strings.ReplaceAll(old.URL.Path, "{category_id}", category)
	}
	if f.edit != nil {
		f.edit(body)
	}
	if f.wrap != "" {
		body = map[string]any{f.wrap: body}
	}
	data, err := json.Marshal(body)
	old.Body = io.NopCloser(bytes.NewReader(data))
	return old, err
}

// listMappings turns the map of networks into the list of pairs that /rest has.
func listMappings(body map[string]any) {
	spec, _ := body["deployment_spec"].(map[string]any)
	mappings, ok := spec["network_mappings"].(map[string]any)
	if !ok {
		return
	}
	list := []any{}
	for key, value := range mappings {
		list = append(list, map[string]any{"key": key, "value": value})
	}
	spec["network_mappings"] = list
}

// unwrap turns an answer of /rest into one of /api.
func (f form) unwrap(out *traffic.Answer) {
	if out.Status >= http.StatusBadRequest {
		kinds := map[int]string{http.StatusNotFound: "NOT_FOUND", http.StatusBadRequest: "INVALID_ARGUMENT"}
		kind, ok := kinds[out.Status]
		if !ok {
			kind = "INTERNAL_SERVER_ERROR"
		}
		var old struct {
			Type  string
			Value struct {
				Messages []struct {
					Text string `json:"default_message"`
				}
			}
		}
		status, text := out.Status, out.Body.String()
		if json.Unmarshal(out.Body.Bytes(), &old) == nil && old.Type != "" {
			kind = strings.ToUpper(path.Ext(old.Type)[1:])
			if len(old.Value.Messages) != 0 {
				text = old.Value.Messages[0].Text
			}
		}
		*out = *traffic.NewAnswer()
		wire.APIError(out, status, kind, text)
		return
	}
	var old struct{ Value json.RawMessage }
	_ = json.Unmarshal(out.Body.Bytes(), &old)
	if len(old.Value) == 0 {
		*out = *traffic.NewAnswer()
		out.Status = http.StatusNoContent
		return
	}
	out.Body.Reset()
	_, _ = out.Write(old.Value)
	if f.status != 0 {
		out.Status = f.status
	}
}

// deployment is the part of an OVF deployment that the library drops without a word.
type deployment struct {
	Spec struct {
		Annotation string `json:"annotation"`
		Profile    string `json:"storage_profile_id"`
		Additional []struct {
			Options []struct {
				Key   string `json:"key"`
				Value string `json:"value"`
			} `json:"extra_configs"`
		} `json:"additional_parameters"`
	} `json:"deployment_spec"`
}

// complete does to a deployed VM what the library has left out.
func (l *Libraries) complete(request []byte, path string, out *traffic.Answer) {
	var wanted deployment
	var done struct {
		Value struct {
			Succeeded bool `json:"succeeded"`
			Resource  struct {
				ID string `json:"id"`
			} `json:"resource_id"`
		}
	}
	if json.Unmarshal(request, &wanted) != nil || json.Unmarshal(out.Body.Bytes(), &done) != nil || !done.Value.Succeeded {
		return
	}
	vm := vim.Ref{Type: "VirtualMachine", Value: done.Value.Resource.ID}
	l.noteImage(vm, path)
	spec := types.VirtualMachineConfigSpec{Annotation: wanted.Spec.Annotation}
	for _, p := range wanted.Spec.Additional {
		for _, o := range p.Options {
			spec.ExtraConfig = append(spec.ExtraConfig, &types.OptionValue{Key: o.Key, Value: o.Value})
		}
	}
	if wanted.Spec.Profile != "" {
		l.compute.ProfileWhole(vm, wanted.Spec.Profile)
	}
	if spec.Annotation != "" || len(spec.ExtraConfig) != 0 {
		_, _ = l.Follow(l.compute.ReconfigVM(l.Fresh(), nil, &types.ReconfigVM_Task{This: vm, Spec: spec}))
	}
}

const deployPath = "/rest/com/vmware/vcenter/ovf/library-item/id:"

// noteImage keeps the name of the item that a VM was deployed from.
func (l *Libraries) noteImage(vm vim.Ref, path string) {
	var item struct {
		Value struct {
			Name string `json:"name"`
		} `json:"value"`
	}
	id := strings.TrimPrefix(path, deployPath)
	if err := l.vapiDo(http.MethodGet, "/rest/com/vmware/content/library/item/id:"+id, nil, &item.Value); err == nil {
		l.compute.Images.Set(vm, item.Value.Name)
	}
	l.takeFirmware(vm, id)
}

// missingFile is a file that an item's descriptor names and the item does not have. The library deploys a disk without it.
func (l *Libraries) missingFile(item string) string {
	found, _ := filepath.Glob(filepath.Join(l.Dir, "datastore-*", "contentlib-*", item, "*.ovf"))
	if len(found) == 0 {
		return ""
	}
	envelope, err := readDescriptor(found[0])
	if err != nil {
		return ""
	}
	for _, file := range envelope.References {
		name, err := url.PathUnescape(file.Href)
		if err != nil {
			name = file.Href
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(found[0]), filepath.Base(name))); err != nil {
			return file.Href
		}
	}
	return ""
}

// takeFirmware gives a deployed VM the firmware that its descriptor names, which the library leaves out.
func (l *Libraries) takeFirmware(this vim.Ref, item string) {
	found, _ := filepath.Glob(filepath.Join(l.Dir, "datastore-*", "contentlib-*", item, "*.ovf"))
	ctx := l.Fresh()
	vm, ok := l.VMOf(ctx, this.Value)
	if len(found) == 0 || !ok {
		return
	}
	envelope, err := readDescriptor(found[0])
	if err != nil || envelope.VirtualSystem == nil {
		return
	}
	for _, section := range envelope.VirtualSystem.VirtualHardware {
		for _, config := range section.Config {
			if config.Key == "firmware" {
				ctx.WithLock(vm, func() { ctx.Update(vm, []types.PropertyChange{{Name: "config.firmware", Val: config.Value}}) })
			}
		}
	}
}
