package traffic

import (
	"net/http"
	"strings"
	"sync"
)

// Journal lists the calls of clients that can change something, in the order in which they came.
type Journal struct {
	mu      sync.Mutex
	entries []Entry
}

// Entry is one call. Its object is the most telling of the names by which a rule may mean it.
type Entry struct {
	Wire   string `json:"wire"`
	Method string `json:"method"`
	Object string `json:"object"`
}

// Add notes a call.
func (j *Journal) Add(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
}

// Take gives the entries so far and, if asked to, forgets them.
func (j *Journal) Take(forget bool) []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := append([]Entry{}, j.entries...)
	if forget {
		j.entries = nil
	}
	return entries
}

// reading are the beginnings of the names of methods that leave everything as it is: sessions, views and filters are
// the client's own affair.
var reading = []string{
	"Retrieve", "Find", "Query", "Check", "Validate", "Wait", "Cancel", "CurrentTime", "CreateContainerView", "CreateListView",
	"CreateFilter", "CreatePropertyCollector", "ModifyListView", "ResetListView", "DestroyView", "DestroyProperty", "Login", "Logout",
	"SessionIsActive", "Acquire", "CreateCollectorForTasks", "CreateCollectorForEvents", "DestroyCollector", "ReadNext", "FetchUserPrivilege", "Pbm",
}

// Changes tells whether a method of the VIM API can change something that outlives the session.
func Changes(method string) bool {
	if strings.Contains(method, ".") {
		return false // the read of a property
	}
	for _, beginning := range reading {
		if strings.HasPrefix(method, beginning) {
			return false
		}
	}
	return true
}

// ChangesREST tells the same of a REST call, known by its name.
func ChangesREST(name string) bool {
	verb, path, _ := strings.Cut(name, " ")
	for _, harmless := range []string{"session", "hello", "action=find", "action=filter", "download-session", "updatesession/file"} {
		if strings.Contains(path, harmless) {
			return false
		}
	}
	return verb != http.MethodGet
}

// Telling is the last name that is not empty.
func Telling(names []string) string {
	for i := len(names) - 1; i >= 0; i-- {
		if names[i] != "" {
			return names[i]
		}
	}
	return ""
}
