package library

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/vapi/library"

	"layercake.invalid/sim/vcsim/vim"
)

// The library shows what is uploaded at once, checks nothing and lets a session complete that has received nothing. Update
// sessions are ours: the library gets an item's files when the session completes, and not before.

// The states of update sessions and of their files.
const (
	sessionActive   = "ACTIVE"
	sessionDone     = "DONE"
	sessionError    = "ERROR"
	sessionCanceled = "CANCELED"

	fileWaiting      = "WAITING_FOR_TRANSFER"
	fileTransferring = "TRANSFERRING"
	fileReady        = "READY"
	fileError        = "ERROR"
)

// idleLifetime is how long a session lives without any activity: vCenter's default.
const idleLifetime = 5 * time.Minute

// uploads are the update sessions of the library's items.
type uploads struct {
	mu       sync.Mutex
	sessions map[string]*updateSession
	tokens   map[string]string   // what came of creations, by client token
	contents map[string]*content // of items that got theirs by a session
}

func (u *uploads) begin() {
	u.sessions, u.tokens, u.contents = map[string]*updateSession{}, map[string]string{}, map[string]*content{}
}

// content is what an item shows of its files.
type content struct {
	version int
	size    int64
}

type updateSession struct {
	id, item, version string
	state, message    string
	progress          int64
	expires           time.Time
	transfers         int // under way
	files             []*updateFile
}

// itemOf is the library's item, with the kind of its library.
func (l *Libraries) itemOf(id string) (*library.Item, *vapiError) {
	var item library.Item
	var of library.Library
	if l.vapiDo(http.MethodGet, "/rest"+libraryPath+"/item/id:"+url.PathEscape(id), nil, &item) != nil {
		return nil, notFound("library item", id)
	}
	if err := l.vapiDo(http.MethodGet, "/rest"+libraryPath+"/id:"+item.LibraryID, nil, &of); err != nil {
		return nil, notFound("library", item.LibraryID)
	}
	if of.Type == "SUBSCRIBED" {
		return nil, &vapiError{http.StatusBadRequest, "INVALID_ELEMENT_TYPE", "the item is one of a subscribed library"}
	}
	return &item, nil
}

// createItem makes an item without any content.
func (l *Libraries) createItem(in *libraryCall) (any, *vapiError) {
	var spec struct {
		Name, Description, Type string
		Library                 string `json:"library_id"`
	}
	if no := in.read(&spec); no != nil {
		return nil, no
	}
	u := &l.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	if id, ok := u.tokens[in.token]; ok {
		return id, nil
	}
	var of library.Library
	if l.vapiDo(http.MethodGet, "/rest"+libraryPath+"/id:"+url.PathEscape(spec.Library), nil, &of) != nil {
		return nil, notFound("library", spec.Library)
	}
	switch {
	case of.Type == "SUBSCRIBED":
		return nil, &vapiError{http.StatusBadRequest, "INVALID_ELEMENT_TYPE", "the library is a subscribed one"}
	case spec.Name == "" || len([]rune(spec.Name)) > 80:
		return nil, invalid("name must have 1 to 80 characters")
	case len([]rune(spec.Description)) > 2000:
		return nil, invalid("description must have 2000 characters at most")
	}
	var same []string
	_ = l.vapiCall(libraryPath+"/item?~action=find", map[string]any{"spec": map[string]any{"name": spec.Name, "library_id": spec.Library}}, &same)
	if len(same) != 0 {
		return nil, &vapiError{http.StatusBadRequest, "ALREADY_EXISTS", "an item called " + spec.Name + " already exists in the library"}
	}
	var id string
	err := l.vapiCall(libraryPath+"/item", map[string]any{"create_spec": map[string]any{
		"name": spec.Name, "description": spec.Description, "type": spec.Type, "library_id": spec.Library,
	}}, &id)
	if err != nil {
		return nil, invalid(err.Error())
	}
	u.remember(in.token, id)
	u.contents[id] = &content{version: 1}
	return id, nil
}

func (u *uploads) remember(token, id string) {
	if token != "" {
		u.tokens[token] = id
	}
}

// deleteItem removes an item, and its sessions with it.
func (l *Libraries) deleteItem(in *libraryCall) (any, *vapiError) {
	if _, no := l.itemOf(in.id); no != nil {
		return nil, no
	}
	u := &l.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, session := range u.sessions {
		if session.item == in.id {
			l.forgetSession(session)
		}
	}
	delete(u.contents, in.id)
	if err := l.vapiDo(http.MethodDelete, "/rest"+libraryPath+"/item/id:"+url.PathEscape(in.id), nil, nil); err != nil {
		return nil, notFound("library item", in.id)
	}
	return nil, nil
}

// createSession opens a session; an item has one at a time.
func (l *Libraries) createSession(in *libraryCall) (any, *vapiError) {
	var spec struct {
		Item string `json:"library_item_id"`
	}
	if no := in.read(&spec); no != nil {
		return nil, no
	}
	item, no := l.itemOf(spec.Item)
	if no != nil {
		return nil, no
	}
	u := &l.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	l.expireSessions(time.Now())
	if id, ok := u.tokens[in.token]; ok {
		return id, nil
	}
	for _, other := range u.sessions {
		if other.item == spec.Item && other.state == sessionActive {
			return nil, &vapiError{http.StatusBadRequest, "RESOURCE_BUSY", "another update session is active for item " + spec.Item}
		}
	}
	made := &updateSession{id: vim.NewUUID(), item: spec.Item, version: item.ContentVersion, state: sessionActive}
	made.touch()
	u.sessions[made.id] = made
	u.remember(in.token, made.id)
	return made.id, nil
}

func (session *updateSession) touch() { session.expires = time.Now().Add(idleLifetime) }

// expireSessions forgets what had no activity for long; the lock is held.
func (l *Libraries) expireSessions(now time.Time) {
	for _, session := range l.uploads.sessions {
		if session.transfers == 0 && now.After(session.expires) {
			l.forgetSession(session)
		}
	}
}

// forgetSession removes a session with what it has received; the lock is held.
func (l *Libraries) forgetSession(session *updateSession) {
	session.state = sessionCanceled // a transfer under way sees it
	_ = os.RemoveAll(l.uploadFolder(session))
	delete(l.uploads.sessions, session.id)
}

func (l *Libraries) uploadFolder(session *updateSession) string {
	return filepath.Join(l.Dir, "upload-"+session.id)
}

// inSession has f work on a session, with the lock held; active says whether it must be one that goes on.
func (l *Libraries) inSession(id string, active bool, f func(*updateSession) (any, *vapiError)) (any, *vapiError) {
	u := &l.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	l.expireSessions(time.Now())
	session, ok := u.sessions[id]
	if !ok {
		return nil, notFound("update session", id)
	}
	if active && session.state != sessionActive {
		return nil, notAllowed("update session " + id + " is " + session.state)
	}
	return f(session)
}

func (l *Libraries) getSession(in *libraryCall) (any, *vapiError) {
	return l.inSession(in.id, false, func(session *updateSession) (any, *vapiError) {
		model := map[string]any{
			"id": session.id, "library_item_id": session.item, "library_item_content_version": session.version,
			"client_progress": session.progress, "state": session.state,
			"expiration_time": session.expires.UTC().Format("2006-01-02T15:04:05.000Z"),
		}
		if session.state == sessionError {
			model["error_message"] = localized(session.message)
		}
		return model, nil
	})
}

func (l *Libraries) listSessions(in *libraryCall) (any, *vapiError) {
	item := in.query.Get("library_item_id")
	if item != "" {
		if _, no := l.itemOf(item); no != nil {
			return nil, no
		}
	}
	u := &l.uploads
	u.mu.Lock()
	defer u.mu.Unlock()
	l.expireSessions(time.Now())
	ids := []string{}
	for id, session := range u.sessions {
		if item == "" || session.item == item {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (l *Libraries) keepSession(in *libraryCall) (any, *vapiError) {
	var body struct {
		Progress *int64 `json:"client_progress"`
	}
	if no := in.read(&body); no != nil {
		return nil, no
	}
	return l.inSession(in.id, true, func(session *updateSession) (any, *vapiError) {
		if body.Progress != nil && (*body.Progress < 0 || *body.Progress > 100) {
			return nil, invalid("client_progress must be 0 to 100")
		}
		if body.Progress != nil {
			session.progress = max(session.progress, *body.Progress)
		}
		session.touch()
		return nil, nil
	})
}

func (l *Libraries) cancelSession(in *libraryCall) (any, *vapiError) {
	return l.inSession(in.id, true, func(session *updateSession) (any, *vapiError) {
		session.end(sessionCanceled, "")
		_ = os.RemoveAll(l.uploadFolder(session))
		return nil, nil
	})
}

func (l *Libraries) failSession(in *libraryCall) (any, *vapiError) {
	var body struct {
		Message string `json:"client_error_message"`
	}
	if no := in.read(&body); no != nil {
		return nil, no
	}
	if body.Message == "" {
		return nil, invalid("client_error_message is missing")
	}
	return l.inSession(in.id, true, func(session *updateSession) (any, *vapiError) {
		session.end(sessionError, body.Message)
		return nil, nil
	})
}

func (session *updateSession) end(state, message string) {
	session.state, session.message = state, message
	session.touch() // it can be looked at for a while
}

func (l *Libraries) deleteSession(in *libraryCall) (any, *vapiError) {
	return l.inSession(in.id, false, func(session *updateSession) (any, *vapiError) {
		if session.state == sessionActive {
			return nil, notAllowed("update session " + session.id + " is ACTIVE: cancel it first")
		}
		l.forgetSession(session)
		return nil, nil
	})
}

// completeSession gives the item the session's files; those that describe others are not kept.
func (l *Libraries) completeSession(in *libraryCall) (any, *vapiError) {
	return l.inSession(in.id, true, func(session *updateSession) (any, *vapiError) {
		if no := session.received(); no != nil {
			return nil, no
		}
		if missing, wrong := session.check(); len(missing)+len(wrong) != 0 {
			return nil, notAllowed(fmt.Sprintf("the files make no OVF item: missing %v, invalid %v", missing, wrong))
		}
		if err := l.fillItem(session); err != nil {
			session.end(sessionError, err.Error())
			return nil, notAllowed(err.Error())
		}
		session.end(sessionDone, "")
		_ = os.RemoveAll(l.uploadFolder(session))
		return nil, nil
	})
}

// fillItem hands the files over to the library, which reads them from the disk.
func (l *Libraries) fillItem(session *updateSession) error {
	var inner string
	err := l.vapiCall(libraryPath+"/item/update-session", map[string]any{"create_spec": map[string]any{"library_item_id": session.item}}, &inner)
	if err != nil {
		return err
	}
	now := l.uploads.contents[session.item]
	if now == nil {
		now = &content{version: 1}
		l.uploads.contents[session.item] = now
	}
	// Disks first: the library reads them, and of an item that it refuses nothing is left.
	files := slices.Clone(session.files)
	slices.SortStableFunc(files, func(a, b *updateFile) int { return cmp.Compare(rank(a.name), rank(b.name)) })
	for _, file := range files {
		if !file.kept() {
			continue
		}
		opened, err := os.Open(file.path)
		if err != nil {
			return err
		}
		err = l.pushFile(inner, file.name, file.got, opened)
		_ = opened.Close()
		if err != nil {
			return err
		}
		now.size += file.got
	}
	now.version++
	return l.vapiCall(libraryPath+"/item/update-session/id:"+inner+"?~action=complete", nil, nil)
}

func rank(file string) int {
	if strings.HasSuffix(strings.ToLower(file), ".vmdk") {
		return 0
	}
	return 1
}

// contentOf is what an item shows of its files; ok tells whether they came by a session.
func (l *Libraries) contentOf(path string) (content, bool) {
	id, ok := strings.CutPrefix(path, "/rest"+libraryPath+"/item/id:")
	l.uploads.mu.Lock()
	defer l.uploads.mu.Unlock()
	if of := l.uploads.contents[id]; ok && of != nil {
		return *of, true
	}
	return content{}, false
}

// UploadsSeen are the update sessions as an administrator sees them.
func (l *Libraries) UploadsSeen() []any {
	l.uploads.mu.Lock()
	defer l.uploads.mu.Unlock()
	list := []any{}
	for _, session := range l.uploads.sessions {
		files := []any{}
		for _, f := range session.files {
			files = append(files, map[string]any{"name": f.name, "status": f.status, "received": f.got})
		}
		list = append(list, map[string]any{
			"id": session.id, "item": session.item, "state": session.state, "progress": session.progress, "files": files,
		})
	}
	return list
}

// ExpireUploads lets the time pass in which sessions without activity expire.
func (l *Libraries) ExpireUploads() {
	l.uploads.mu.Lock()
	defer l.uploads.mu.Unlock()
	l.expireSessions(time.Now().Add(2 * idleLifetime))
}
