package main

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAUserLogsInAndGetsATokenForTheClient(t *testing.T) {
	folder := t.TempDir()
	go func() { _ = serve(folder, "127.0.0.1", []string{"kubernetes", "other"}) }()
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(filepath.Join(folder, "url")); err == nil && len(text) > 0 {
			break
		}
	}
	time.Sleep(100 * time.Millisecond)
	token, err := logIn(folder, "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Subject  string   `json:"sub"`
		Audience []string `json:"aud"`
		Groups   []string `json:"groups"`
	}
	if err := json.Unmarshal(claims, &found); err != nil {
		t.Fatal(err)
	}
	if found.Subject != "ann" || len(found.Audience) != 1 || found.Audience[0] != "kubernetes" || len(found.Groups) != 2 {
		t.Fatalf("%s", claims)
	}
	if _, err := logIn(folder, "stranger"); err == nil {
		t.Fatal("a client that the provider does not know got a token")
	}
}
