package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	vapi "github.com/vmware/govmomi/vapi/simulator"
)

// connectLibrary has the library serve content libraries under /rest. It reaches the inventory as a client of its own.
func (s *Sim) connectLibrary() {
	inner := s.url()
	inner.Path = innerPath
	inner.User = url.UserPassword(s.inner.UserName, s.inner.Password)
	_, s.vapi = vapi.New(inner, s.registry)
	s.svc.Handle("/rest/", s.vapi)
}

// importLibraries fills the content libraries by the same REST calls that an administrator's client would make,
// but in process: a site with dozens of images is ready at once.
func (s *Sim) importLibraries() error {
	for _, library := range s.options.Spec.Libraries {
		id, err := s.importLibrary(library)
		if err != nil {
			return fmt.Errorf("library %s: %w", library.Name, err)
		}
		s.found.Libraries[library.Name] = id
	}
	return nil
}

func (s *Sim) importLibrary(library Library) (string, error) {
	var id string
	datastore := s.found.Datastores[s.options.Spec.Datastores[0]]
	spec := map[string]any{
		"name": library.Name,
		"type": "LOCAL",
		"storage_backings": []any{
			map[string]any{"datastore_id": datastore, "type": "DATASTORE"},
		},
	}
	path := "/com/vmware/content/local-library"
	if library.Subscribes != "" {
		path = "/com/vmware/content/subscribed-library"
		spec["type"] = "SUBSCRIBED"
		spec["subscription_info"] = map[string]any{
			"subscription_url": "https://localhost/cls/vcsp/lib/" + s.found.Libraries[library.Subscribes],
			"on_demand":        true, "automatic_sync_enabled": false, "authentication_method": "NONE",
		}
	}
	if err := s.vapiCall(path, map[string]any{"create_spec": spec}, &id); err != nil {
		return "", err
	}
	for _, item := range library.Items {
		if _, err := s.importItem(id, item); err != nil {
			return "", fmt.Errorf("item %s: %w", item.Name, err)
		}
	}
	return id, nil
}

// importItem makes an item and gives its id.
func (s *Sim) importItem(library string, item LibraryItem) (id string, err error) {
	var session string
	err = s.vapiCall("/com/vmware/content/library/item", map[string]any{"create_spec": map[string]any{
		"name": item.Name, "description": item.Description, "type": "ovf", "library_id": library,
	}}, &id)
	if err != nil {
		return "", err
	}
	err = s.vapiCall("/com/vmware/content/library/item/update-session", map[string]any{"create_spec": map[string]any{
		"library_item_id": id,
	}}, &session)
	if err != nil {
		return "", err
	}
	for _, file := range item.Files {
		if err := s.importFile(session, file); err != nil {
			return "", err
		}
	}
	return id, s.vapiCall("/com/vmware/content/library/item/update-session/id:"+session+"?~action=complete", nil, nil)
}

func (s *Sim) importFile(session, file string) error {
	data, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = data.Close() }()
	info, err := data.Stat()
	if err != nil {
		return err
	}
	return s.pushFile(session, filepath.Base(file), info.Size(), data)
}

// pushFile gives the library a file of its own session.
func (s *Sim) pushFile(session, name string, size int64, data io.Reader) error {
	var added struct {
		Endpoint struct {
			URI string `json:"uri"`
		} `json:"upload_endpoint"`
	}
	path := "/com/vmware/content/library/item/updatesession/file/id:" + session + "?~action=add"
	err := s.vapiCall(path, map[string]any{"file_spec": map[string]any{
		"name": name, "source_type": "PUSH", "size": size,
	}}, &added)
	if err != nil {
		return err
	}
	target, err := url.Parse(added.Endpoint.URI)
	if err != nil {
		return err
	}
	// A file of this machine would be copied, and not read as a disk that was sent.
	return s.vapiDo(http.MethodPut, target.EscapedPath(), onlyReader{data}, nil)
}

func (s *Sim) vapiCall(path string, body, result any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return s.vapiDo(http.MethodPost, "/rest"+path, bytes.NewReader(data), result)
}

func (s *Sim) vapiDo(method, path string, body io.Reader, result any) error {
	if body == nil {
		body = http.NoBody
	}
	r, err := http.NewRequest(method, path, body)
	if err != nil {
		return err
	}
	r.Header.Set(tokenHeader, s.sharedSession())
	out := newAnswer()
	s.vapi.ServeHTTP(out, r)
	if out.status != http.StatusOK {
		return fmt.Errorf("%s: status %d: %s", path, out.status, out.body.String())
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(out.body.Bytes(), &struct{ Value any }{result})
}
