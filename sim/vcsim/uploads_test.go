package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vapi/library"

	"layercake.invalid/sim/vcsim/faults"
)

const (
	itemsPath   = "/api/content/library/item"
	updatesPath = itemsPath + "/update-session"
)

// uploading is a client that fills an item.
type uploading struct {
	*site
	call          func(method, path, body string, want int, into any)
	item, session string
}

func newUploading(t *testing.T, name string) *uploading {
	s := newSite(t)
	u := &uploading{site: s, call: s.asking(s.token())}
	u.call("POST", itemsPath, fmt.Sprintf(`{"name":%q,"type":"ovf","library_id":%q}`, name, s.Found.Libraries["layercake"]), 201, &u.item)
	u.call("POST", updatesPath, fmt.Sprintf(`{"library_item_id":%q}`, u.item), 201, &u.session)
	return u
}

func (u *uploading) at(rest string) string { return updatesPath + "/" + u.session + rest }

// refused makes a call that must be refused so.
func (u *uploading) refused(method, path, body string, status int, kind string) {
	u.t.Helper()
	var no struct {
		Kind string `json:"error_type"`
	}
	u.call(method, path, body, status, &no)
	if no.Kind != kind {
		u.t.Errorf("%s %s: %s", method, path, no.Kind)
	}
}

// add announces a file and gives its endpoint.
func (u *uploading) add(name string, size int, sum string) string {
	u.t.Helper()
	spec := fmt.Sprintf(`{"name":%q,"source_type":"PUSH","size":%d,"checksum_info":{"algorithm":"SHA256","checksum":%q}}`, name, size, sum)
	var info struct {
		Status   string
		Endpoint struct{ URI string } `json:"upload_endpoint"`
	}
	u.call("POST", u.at("/file"), spec, 201, &info)
	if info.Status != "WAITING_FOR_TRANSFER" {
		u.t.Errorf("%s: %s", name, info.Status)
	}
	return info.Endpoint.URI
}

// put sends bytes without any session, and gives the answer's status, or 0 where the connection was cut.
func (u *uploading) put(endpoint string, data []byte) int {
	u.t.Helper()
	r, err := http.NewRequestWithContext(u.ctx, http.MethodPut, endpoint, bytes.NewReader(data))
	must(u.t, err)
	res, err := u.https().Do(r)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

func (u *uploading) push(name string, data []byte) {
	u.t.Helper()
	if status := u.put(u.add(name, len(data), fmt.Sprintf("%x", sha256.Sum256(data))), data); status != 200 {
		u.t.Fatalf("%s: status %d", name, status)
	}
}

func (u *uploading) statusOf(name string) string {
	u.t.Helper()
	var files []struct{ Name, Status string }
	u.call("GET", u.at("/file"), "", 200, &files)
	for _, f := range files {
		if f.Name == name {
			return f.Status
		}
	}
	return ""
}

// kept are the item's files.
func (u *uploading) kept() []string {
	u.t.Helper()
	var files []library.File
	u.call("GET", itemsPath+"/"+u.item+"/file", "", 200, &files)
	names := []string{}
	for _, f := range files {
		names = append(names, f.Name)
	}
	return names
}

func (u *uploading) state() string {
	u.t.Helper()
	var session struct{ State string }
	u.call("GET", u.at(""), "", 200, &session)
	return session.State
}

// parts are a descriptor and the disk that it names.
func parts(t *testing.T) (descriptor, disk []byte) {
	image := writeImage(t, t.TempDir(), "up")
	for _, file := range image.Files {
		data, err := os.ReadFile(file)
		must(t, err)
		if strings.HasSuffix(file, ".ovf") {
			descriptor = data
		} else {
			disk = data
		}
	}
	return descriptor, disk
}

func TestAnItemIsFilledWhenItsSessionCompletes(t *testing.T) {
	u := newUploading(t, "filled")
	descriptor, disk := parts(t)
	diskName := strings.SplitN(strings.SplitN(string(descriptor), `ovf:href="`, 2)[1], `"`, 2)[0]

	u.refused("POST", u.at("?action=complete"), "", 400, "NOT_ALLOWED_IN_CURRENT_STATE") // no files
	u.push("up.ovf", descriptor)
	u.refused("POST", u.at("/file"), `{"name":"up.mf","source_type":"PUSH"}`, 400, "NOT_ALLOWED_IN_CURRENT_STATE")
	var checked struct {
		Errors  bool     `json:"has_errors"`
		Missing []string `json:"missing_files"`
	}
	u.call("POST", u.at("/file?action=validate"), "", 200, &checked)
	if !checked.Errors || len(checked.Missing) != 1 || checked.Missing[0] != diskName {
		t.Errorf("%+v", checked)
	}
	u.refused("POST", u.at("?action=complete"), "", 400, "NOT_ALLOWED_IN_CURRENT_STATE") // the disk is missing
	endpoint := u.add(diskName, len(disk), fmt.Sprintf("%x", sha256.Sum256(disk)))
	u.refused("POST", u.at("?action=complete"), "", 400, "NOT_ALLOWED_IN_CURRENT_STATE") // announced, and not here
	if status := u.put(endpoint, disk); status != 200 {
		t.Fatal(status)
	}
	if kept := u.kept(); len(kept) != 0 {
		t.Errorf("visible before completion: %v", kept)
	}
	if status := u.put(endpoint, disk); status != 404 {
		t.Errorf("sent twice: %d", status)
	}
	u.refused("DELETE", u.at(""), "", 400, "NOT_ALLOWED_IN_CURRENT_STATE")
	u.call("POST", u.at("?action=complete"), "", 204, nil)
	if state, kept := u.state(), u.kept(); state != "DONE" || len(kept) != 2 {
		t.Errorf("%s with %v", state, kept)
	}
	u.refused("POST", u.at("?action=complete"), "", 400, "NOT_ALLOWED_IN_CURRENT_STATE")
	u.refused("POST", u.at("?action=cancel"), "", 400, "NOT_ALLOWED_IN_CURRENT_STATE")
	u.call("DELETE", u.at(""), "", 204, nil)
	var item struct {
		Size    int
		Version string `json:"content_version"`
	}
	u.call("GET", itemsPath+"/"+u.item, "", 200, &item)
	if item.Size != len(descriptor)+len(disk) || item.Version != "2" {
		t.Errorf("%+v", item)
	}
}

func TestARefusedDiskLeavesAnEmptyItem(t *testing.T) {
	u := newUploading(t, "refused")
	descriptor, _ := parts(t)
	diskName := strings.SplitN(strings.SplitN(string(descriptor), `ovf:href="`, 2)[1], `"`, 2)[0]
	u.push("up.ovf", descriptor)
	u.push(diskName, append([]byte("KDMV"), make([]byte, 5000)...))
	u.refused("POST", u.at("?action=complete"), "", 400, "NOT_ALLOWED_IN_CURRENT_STATE")
	if kept := u.kept(); len(kept) != 0 {
		t.Errorf("left: %v", kept)
	}
}

func TestWhatIsReceivedIsChecked(t *testing.T) {
	u := newUploading(t, "checked")
	data := []byte("data")
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	u.put(u.add("short.vmdk", 5, sum), data)
	u.put(u.add("other.vmdk", 4, strings.Repeat("0", 64)), data)
	for _, name := range []string{"short.vmdk", "other.vmdk"} {
		if status := u.statusOf(name); status != "ERROR" {
			t.Errorf("%s is %s", name, status)
		}
	}
	must(t, u.Rules.Add(&faults.Rule{Method: "PUT /cls/data", Kind: faults.KindAbort}))
	endpoint := u.add("cut.vmdk", 4, sum)
	if status := u.put(endpoint, data); status != 0 {
		t.Errorf("cut: %d", status)
	}
	if status := u.statusOf("cut.vmdk"); status != "ERROR" {
		t.Errorf("cut.vmdk is %s", status)
	}
	if status := u.put(endpoint, data); status != 404 {
		t.Errorf("taken up again: %d", status)
	}
	u.push("cut.vmdk", data)
	if status := u.statusOf("cut.vmdk"); status != "READY" {
		t.Errorf("cut.vmdk is %s", status)
	}
	for _, spec := range []string{
		`{"name":"../x","source_type":"PUSH"}`, `{"name":"x","source_type":"PULL"}`,
		`{"name":"x","source_type":"PUSH","checksum_info":{"algorithm":"CRC","checksum":"0"}}`,
		`{"name":"x.ova","source_type":"PUSH","checksum_info":{"checksum":"0"}}`, `{"name":"x","source_type":"PUSH","siez":1}`,
	} {
		u.refused("POST", u.at("/file"), spec, 400, "INVALID_ARGUMENT")
	}
}

func TestAnItemHasOneNameAndOneSession(t *testing.T) {
	u := newUploading(t, "taken")
	lib := u.Found.Libraries["layercake"]
	spec := func(name string) string { return fmt.Sprintf(`{"name":%q,"library_id":%q}`, name, lib) }
	u.refused("POST", itemsPath, spec("taken"), 400, "ALREADY_EXISTS")
	u.refused("POST", itemsPath, spec(""), 400, "INVALID_ARGUMENT")
	u.refused("POST", itemsPath, spec(strings.Repeat("x", 81)), 400, "INVALID_ARGUMENT")
	u.refused("POST", itemsPath, `{"name":"x","library_id":"nowhere"}`, 404, "NOT_FOUND")
	of := fmt.Sprintf(`{"library_item_id":%q}`, u.item)
	u.refused("POST", updatesPath, of, 400, "RESOURCE_BUSY")
	var ids []string
	u.call("GET", updatesPath+"?library_item_id="+u.item, "", 200, &ids)
	if len(ids) != 1 || ids[0] != u.session {
		t.Errorf("%v", ids)
	}
	u.refused("GET", updatesPath+"?library_item_id=nothing", "", 404, "NOT_FOUND")
	u.call("POST", u.at("?action=keep-alive"), `{"client_progress":7}`, 204, nil)
	u.call("POST", u.at("?action=fail"), `{"client_error_message":"it broke"}`, 204, nil)
	if state := u.state(); state != "ERROR" {
		t.Error(state)
	}
	u.refused("POST", u.at("?action=keep-alive"), "", 400, "NOT_ALLOWED_IN_CURRENT_STATE")
	u.call("POST", updatesPath, of, 201, &u.session)
	u.call("POST", u.at("?action=cancel"), "", 204, nil)
	if state := u.state(); state != "CANCELED" {
		t.Error(state)
	}
	u.refused("POST", u.at("/file"), `{"name":"x","source_type":"PUSH"}`, 400, "NOT_ALLOWED_IN_CURRENT_STATE")
	u.call("DELETE", u.at(""), "", 204, nil)
	u.call("POST", updatesPath, of, 201, &u.session)
	u.answers(http.StatusNoContent, "POST", "/v1/uploads/expire", nil, nil)
	u.refused("GET", u.at(""), "", 404, "NOT_FOUND")
	u.call("POST", updatesPath, of, 201, &u.session)
	u.call("DELETE", itemsPath+"/"+u.item, "", 204, nil)
	u.refused("GET", u.at(""), "", 404, "NOT_FOUND")
	u.refused("DELETE", itemsPath+"/"+u.item, "", 404, "NOT_FOUND")
	u.refused("POST", updatesPath, of, 404, "NOT_FOUND")
	u.privileges.Set([]string{"ContentLibrary.AddLibraryItem"})
	u.refused("POST", itemsPath, spec("other"), 403, "UNAUTHORIZED")
}

// The form of /rest, as govc library.import has it.
func TestGovcImportsInTheOldForm(t *testing.T) {
	s := newSite(t)
	m := library.NewManager(s.automation())
	id, err := m.CreateLibraryItem(s.ctx, library.Item{Name: "govc", Type: "ovf", LibraryID: s.Found.Libraries["layercake"]})
	must(t, err)
	session, err := m.CreateLibraryItemUpdateSession(s.ctx, library.Session{LibraryItemID: id})
	must(t, err)
	descriptor, disk := parts(t)
	diskName := strings.SplitN(strings.SplitN(string(descriptor), `ovf:href="`, 2)[1], `"`, 2)[0]
	for name, data := range map[string][]byte{"up.ovf": descriptor, diskName: disk} {
		info, err := m.AddLibraryItemFile(s.ctx, session, library.UpdateFile{Name: name, SourceType: "PUSH", Size: int64(len(data))})
		must(t, err)
		u := &uploading{site: s}
		if status := u.put(info.UploadEndpoint.URI, data); status != 200 {
			t.Fatal(status)
		}
	}
	must(t, m.CompleteLibraryItemUpdateSession(s.ctx, session))
	done, err := m.GetLibraryItemUpdateSession(s.ctx, session)
	must(t, err)
	files, err := m.ListLibraryItemFiles(s.ctx, id)
	must(t, err)
	if done.State != "DONE" || len(files) != 2 {
		t.Errorf("%s, %v", done.State, files)
	}
	must(t, m.DeleteLibraryItem(s.ctx, &library.Item{ID: id}))
}
