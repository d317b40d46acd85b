// Package library is the Automation API: content libraries, deployments, uploads and cluster modules.
package library

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

	"layercake.invalid/sim/vcsim/access"
	"layercake.invalid/sim/vcsim/compute"
	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/inventory"
	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/wire"
)

// Libraries are the Automation API: content libraries, deployments from them, tags and cluster modules.
type Libraries struct {
	*core.VCenter
	wire       *wire.Server
	inventory  *inventory.Inventory
	compute    *compute.Compute
	privileges *access.Privileges

	vapi     http.Handler // the library's
	shared   restSession
	captures captures
	uploads  uploads
}

// New gives a service without libraries.
func New(vc *core.VCenter, w *wire.Server, inv *inventory.Inventory, c *compute.Compute, p *access.Privileges) *Libraries {
	l := &Libraries{VCenter: vc, wire: w, inventory: inv, compute: c, privileges: p}
	l.captures.items = map[string]string{}
	l.uploads.begin()
	return l
}

// Connect has the library serve content libraries under /rest. It reaches the inventory as a client of its own.
func (l *Libraries) Connect() {
	inner := l.URL()
	inner.Path = traffic.InnerPath
	inner.User = url.UserPassword(l.Inner.UserName, l.Inner.Password)
	_, l.vapi = vapi.New(inner, l.Registry)
	l.Service.Handle("/rest/", l.vapi)
}

// Import fills the content libraries by the same REST calls that an administrator's client would make,
// but in process: a site with dozens of images is ready at once.
func (l *Libraries) Import() error {
	for _, library := range l.Options.Spec.Libraries {
		id, err := l.importLibrary(library)
		if err != nil {
			return fmt.Errorf("library %s: %w", library.Name, err)
		}
		l.Found.Libraries[library.Name] = id
	}
	return nil
}

func (l *Libraries) importLibrary(library spec.Library) (string, error) {
	var id string
	datastore := l.Found.Datastores[l.Options.Spec.Datastores[0]]
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
			"subscription_url": "https://localhost/cls/vcsp/lib/" + l.Found.Libraries[library.Subscribes],
			"on_demand":        true, "automatic_sync_enabled": false, "authentication_method": "NONE",
		}
	}
	if err := l.vapiCall(path, map[string]any{"create_spec": spec}, &id); err != nil {
		return "", err
	}
	for _, item := range library.Items {
		if _, err := l.importItem(id, item); err != nil {
			return "", fmt.Errorf("item %s: %w", item.Name, err)
		}
	}
	return id, nil
}

// importItem makes an item and gives its id.
func (l *Libraries) importItem(library string, item spec.LibraryItem) (id string, err error) {
	var session string
	err = l.vapiCall("/com/vmware/content/library/item", map[string]any{"create_spec": map[string]any{
		"name": item.Name, "description": item.Description, "type": "ovf", "library_id": library,
	}}, &id)
	if err != nil {
		return "", err
	}
	err = l.vapiCall("/com/vmware/content/library/item/update-session", map[string]any{"create_spec": map[string]any{
		"library_item_id": id,
	}}, &session)
	if err != nil {
		return "", err
	}
	for _, file := range item.Files {
		if err := l.importFile(session, file); err != nil {
			return "", err
		}
	}
	return id, l.vapiCall("/com/vmware/content/library/item/update-session/id:"+session+"?~action=complete", nil, nil)
}

func (l *Libraries) importFile(session, file string) error {
	data, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = data.Close() }()
	info, err := data.Stat()
	if err != nil {
		return err
	}
	return l.pushFile(session, filepath.Base(file), info.Size(), data)
}

// pushFile gives the library a file of its own session.
func (l *Libraries) pushFile(session, name string, size int64, data io.Reader) error {
	var added struct {
		Endpoint struct {
			URI string `json:"uri"`
		} `json:"upload_endpoint"`
	}
	path := "/com/vmware/content/library/item/updatesession/file/id:" + session + "?~action=add"
	err := l.vapiCall(path, map[string]any{"file_spec": map[string]any{
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
	return l.vapiDo(http.MethodPut, target.EscapedPath(), onlyReader{data}, nil)
}

func (l *Libraries) vapiCall(path string, body, result any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return l.vapiDo(http.MethodPost, "/rest"+path, bytes.NewReader(data), result)
}

func (l *Libraries) vapiDo(method, path string, body io.Reader, result any) error {
	if body == nil {
		body = http.NoBody
	}
	r, err := http.NewRequest(method, path, body)
	if err != nil {
		return err
	}
	r.Header.Set(wire.TokenHeader, l.sharedSession())
	out := traffic.NewAnswer()
	l.vapi.ServeHTTP(out, r)
	if out.Status != http.StatusOK {
		return fmt.Errorf("%s: status %d: %s", path, out.Status, out.Body.String())
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(out.Body.Bytes(), &struct{ Value any }{result})
}
