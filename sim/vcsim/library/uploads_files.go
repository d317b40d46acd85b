package library

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmware/govmomi/ovf"
	"github.com/vmware/govmomi/vapi/library"

	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
	"layercake.invalid/sim/vcsim/wire"
)

// updateFile is a file of an update session.
type updateFile struct {
	name, key, path string // key is its secret in the upload endpoint
	wanted          *int64 // the size that was announced
	checksum        *library.Checksum
	got             int64
	status, message string
}

var digests = map[string]func() hash.Hash{"MD5": md5.New, "SHA1": sha1.New, "SHA256": sha256.New, "SHA512": sha512.New}

// kept tells whether the file stays in the item; those that describe others are only checked.
func (f *updateFile) kept() bool { return !describes(f.name) }

func describes(name string) bool {
	return slices.Contains([]string{".mf", ".cert"}, strings.ToLower(path.Ext(name)))
}

func isDescriptor(name string) bool { return strings.EqualFold(path.Ext(name), ".ovf") }

func (l *Libraries) addFile(in *libraryCall) (any, *vapiError) {
	var spec struct {
		Name     string
		Source   string `json:"source_type"`
		Size     *int64
		Checksum *library.Checksum `json:"checksum_info"`
	}
	if no := in.read(&spec); no != nil {
		return nil, no
	}
	sum := spec.Checksum
	if sum != nil && sum.Algorithm == "" {
		sum.Algorithm = "SHA1"
	}
	switch {
	case spec.Name == "" || strings.ContainsAny(spec.Name, `/\`) || strings.Contains(spec.Name, ".."):
		return nil, invalid("name " + spec.Name + " is no name of a file")
	case spec.Source != "PUSH":
		return nil, invalid("source_type must be PUSH: nothing else is simulated")
	case spec.Size != nil && *spec.Size < 0:
		return nil, invalid("size must not be negative")
	case sum != nil && (digests[sum.Algorithm] == nil || sum.Checksum == ""):
		return nil, invalid("checksum_info must have a known algorithm and a checksum")
	case sum != nil && strings.EqualFold(path.Ext(spec.Name), ".ova"):
		return nil, invalid("checksum_info must not be set for an OVA")
	}
	return l.inSession(in.id, true, func(session *updateSession) (any, *vapiError) {
		session.touch()
		after := func(f *updateFile) bool { return isDescriptor(f.name) }
		if describes(spec.Name) && slices.ContainsFunc(session.files, after) {
			return nil, notAllowed(spec.Name + " must be added before the descriptor")
		}
		// A name that is there already gets new content.
		session.files = slices.DeleteFunc(session.files, func(f *updateFile) bool { return f.name == spec.Name })
		key := vim.NewUUID()
		added := &updateFile{
			name: spec.Name, key: key, path: filepath.Join(l.uploadFolder(session), key),
			wanted: spec.Size, checksum: sum, status: fileWaiting,
		}
		session.files = append(session.files, added)
		return l.fileInfo(added), nil
	})
}

func (l *Libraries) fileInfo(f *updateFile) map[string]any {
	endpoint := l.URL()
	endpoint.Path = "/cls/data/" + f.key + "/" + f.name
	info := map[string]any{
		"name": f.name, "source_type": "PUSH", "bytes_transferred": f.got, "status": f.status,
		"upload_endpoint": map[string]any{"uri": endpoint.String()}, "keep_in_storage": f.kept(),
	}
	if f.checksum != nil {
		info["checksum_info"] = f.checksum
	}
	if f.status == fileReady {
		info["size"] = f.got
	}
	if f.status == fileError {
		info["error_message"] = localized(f.message)
	}
	return info
}

func (l *Libraries) listFiles(in *libraryCall) (any, *vapiError) {
	id := in.id
	if in.old {
		id = in.query.Get("update_session_id")
	}
	return l.inSession(id, false, func(session *updateSession) (any, *vapiError) {
		infos := []any{}
		for _, f := range session.files {
			infos = append(infos, l.fileInfo(f))
		}
		return infos, nil
	})
}

// validateFiles says what the descriptor names that is not there, and what is not as it says.
func (l *Libraries) validateFiles(in *libraryCall) (any, *vapiError) {
	return l.inSession(in.id, true, func(session *updateSession) (any, *vapiError) {
		session.touch()
		if no := session.received(); no != nil {
			return nil, no
		}
		missing, wrong := session.check()
		invalid := []any{}
		for _, name := range slices.Sorted(maps.Keys(wrong)) {
			invalid = append(invalid, map[string]any{"name": name, "error_message": localized(wrong[name])})
		}
		return map[string]any{"has_errors": len(missing)+len(wrong) != 0, "missing_files": missing, "invalid_files": invalid}, nil
	})
}

// received refuses a session some of whose files are not here.
func (session *updateSession) received() *vapiError {
	if len(session.files) == 0 {
		return notAllowed("update session " + session.id + " has no files")
	}
	for _, f := range session.files {
		if f.status != fileReady {
			return notAllowed("file " + f.name + " is " + f.status + ": " + f.message)
		}
	}
	return nil
}

// check compares the descriptor with the files that are here.
func (session *updateSession) check() (missing []string, wrong map[string]string) {
	missing, wrong = []string{}, map[string]string{}
	here := map[string]*updateFile{}
	for _, f := range session.files {
		if strings.EqualFold(path.Ext(f.name), ".ova") {
			return missing, wrong
		}
		here[f.name] = f
	}
	found := false
	for _, f := range session.files {
		if !isDescriptor(f.name) {
			continue
		}
		found = true
		envelope, err := readDescriptor(f.path)
		if err != nil {
			wrong[f.name] = err.Error()
			continue
		}
		for _, named := range envelope.References {
			switch part := here[named.Href]; {
			case part == nil:
				missing = append(missing, named.Href)
			case named.Size != 0 && int64(named.Size) != part.got:
				wrong[named.Href] = "its size is not the one that the descriptor has"
			}
		}
	}
	if !found {
		missing = append(missing, "*.ovf")
	}
	return missing, wrong
}

func readDescriptor(name string) (*ovf.Envelope, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return ovf.Unmarshal(file)
}

// serveUpload takes a file's bytes. Whoever knows the endpoint may send them: it asks for no session.
func (l *Libraries) serveUpload(w http.ResponseWriter, r *http.Request) {
	names := []string{wire.RestName(r), "PUT /cls/data"}
	l.Counters.Add(traffic.REST, names[1])
	l.Journal.Add(traffic.Entry{Wire: traffic.REST, Method: names[1], Object: r.PathValue("name")})
	out := traffic.NewAnswer()
	verdict, goOn := l.wire.Strike(out, r, names)
	body := io.Reader(r.Body)
	if !goOn {
		// What a fault befalls is cut off in the middle.
		body = io.MultiReader(io.LimitReader(r.Body, r.ContentLength/2), broken{})
	}
	l.receiveFile(out, r, body)
	out.Drop = out.Drop && goOn // else the fault says what is answered
	if verdict != nil {
		verdict(out)
	}
	out.Send(w)
}

type broken struct{}

// Read is part of io.Reader.
func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// receiveFile writes what comes to the disk. What is wrong with it, the file's status says and not the answer.
func (l *Libraries) receiveFile(out *traffic.Answer, r *http.Request, body io.Reader) {
	session, file := l.beginTransfer(r.PathValue("key"), r.PathValue("name"))
	if file == nil {
		out.Replace(http.StatusNotFound, "text/plain", "no file waits for a transfer here")
		return
	}
	sum, err := l.transfer(session, file, body)
	u := &l.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	session.transfers--
	session.touch()
	fail := func(message string) { file.status, file.message = fileError, message }
	switch {
	case session.state != sessionActive:
		out.Drop = true
	case err != nil:
		fail("the transfer broke off: " + err.Error())
		out.Drop = true
	case file.wanted != nil && *file.wanted != file.got:
		fail("its size is not the one that was announced")
	case file.checksum != nil && !strings.EqualFold(sum, file.checksum.Checksum):
		fail("its checksum is not the one that was announced")
	default:
		file.status = fileReady
	}
}

// beginTransfer finds the file that an endpoint is for. A transfer that broke off is not taken up again: the file must be added
// anew.
func (l *Libraries) beginTransfer(key, name string) (*updateSession, *updateFile) {
	u := &l.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, session := range u.sessions {
		for _, file := range session.files {
			if file.key == key && file.name == name && file.status == fileWaiting && session.state == sessionActive {
				file.status = fileTransferring
				session.transfers++
				return session, file
			}
		}
	}
	return nil, nil
}

func (l *Libraries) transfer(session *updateSession, file *updateFile, body io.Reader) (string, error) {
	if err := os.MkdirAll(l.uploadFolder(session), 0o700); err != nil {
		return "", err
	}
	to, err := os.Create(file.path)
	if err != nil {
		return "", err
	}
	defer func() { _ = to.Close() }()
	sum := sha256.New()
	if file.checksum != nil {
		sum = digests[file.checksum.Algorithm]()
	}
	counted := &transferred{s: l, session: session, file: file}
	_, err = io.CopyBuffer(io.MultiWriter(to, sum, counted), onlyReader{body}, make([]byte, 256<<10))
	return hex.EncodeToString(sum.Sum(nil)), err
}

// onlyReader hides what else a reader can do, so that the buffer is used.
type onlyReader struct{ io.Reader }

// transferred counts what was received, and ends the transfer with its session.
type transferred struct {
	s       *Libraries
	session *updateSession
	file    *updateFile
}

// Write is part of io.Writer.
func (t *transferred) Write(p []byte) (int, error) {
	t.s.uploads.mu.Lock()
	defer t.s.uploads.mu.Unlock()
	if t.session.state != sessionActive {
		return 0, io.ErrClosedPipe
	}
	t.file.got += int64(len(p))
	t.session.touch()
	return len(p), nil
}
