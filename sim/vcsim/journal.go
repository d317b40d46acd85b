package main

import (
	"net/http"
	"strings"
	"sync"
)

// journal lists the calls of clients that can change something, in the order in which they came.
type journal struct {
	mu      sync.Mutex
	entries []entry
}

// entry is one call. Its object is the most telling of the names by which a rule may mean it.
type entry struct {
	Wire   string `json:"wire"`
	Method string `json:"method"`
	Object string `json:"object"`
}

func (j *journal) add(e entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
}

// take gives the entries so far and, if asked to, forgets them.
func (j *journal) take(forget bool) []entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := append([]entry{}, j.entries...)
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
	"SessionIsActive", "Acquire", "CreateCollectorForTasks", "CreateCollectorForEvents", "DestroyCollector", "ReadNext", "Pbm",
}

// changes tells whether a method of the VIM API can change something that outlives the session.
func changes(method string) bool {
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

// changesREST tells the same of a REST call, known by its name.
func changesREST(name string) bool {
	verb, path, _ := strings.Cut(name, " ")
	for _, harmless := range []string{"session", "hello", "action=find", "action=filter", "download-session", "updatesession/file"} {
		if strings.Contains(path, harmless) {
			return false
		}
	}
	return verb != http.MethodGet
}

// telling is the last name that is not empty.
func telling(names []string) string {
	for i := len(names) - 1; i >= 0; i-- {
		if names[i] != "" {
			return names[i]
		}
	}
	return ""
}
