package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	userName = "ann"
	password = "not-a-secret"
	// What the clients of the provider prove themselves with, and where it sends users back to.
	clientSecret = "not-a-secret-either"
	redirectURI  = "http://localhost:8000/callback"
)

// users is the only user.
type users struct{}

func (users) user() *storage.User {
	return &storage.User{ID: userName, Username: userName, Password: password, Email: userName + "@example.com"}
}

func (u users) GetUserByID(id string) *storage.User {
	if id != userName {
		return nil
	}
	return u.user()
}

func (u users) GetUserByUsername(name string) *storage.User { return u.GetUserByID(name) }

func (users) ExampleClientID() string { return "" }

// withGroups adds the groups of a user to the tokens.
type withGroups struct{ *storage.Storage }

func (s withGroups) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, request op.IDTokenRequest, _ []string) error {
	info.Subject = request.GetSubject()
	// Nothing keeps a provider from the names of Kubernetes.
	info.AppendClaims("groups", []string{"devs", "system:masters"})
	return nil
}

// serve serves the provider at an address of this host, with a certificate of an authority of its own.
func serve(folder, address string, ids []string) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return err
	}
	issuer := "https://" + listener.Addr().String()
	authority, certificate, err := certificates(net.ParseIP(address))
	if err != nil {
		return err
	}
	handler, err := provider(issuer, ids)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"ca.pem": authority, "url": []byte(issuer)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	fmt.Println(issuer)
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	return server.ServeTLS(listener, "", "")
}

func provider(issuer string, ids []string) (http.Handler, error) {
	clients := map[string]*storage.Client{}
	for _, id := range ids {
		clients[id] = storage.WebClient(id, clientSecret, redirectURI)
	}
	store := withGroups{storage.NewStorageWithClients(users{}, clients)}
	config := &op.Config{CodeMethodS256: true, SupportedScopes: []string{oidc.ScopeOpenID}}
	if _, err := rand.Read(config.CryptoKey[:]); err != nil {
		return nil, err
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	openid, err := op.NewProvider(config, store, op.StaticIssuer(issuer), op.WithLogger(quiet))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", openid)
	interceptor := op.NewIssuerInterceptor(openid.IssuerFromRequest)
	mux.Handle("POST /login/username", interceptor.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.FormValue("id")
		if err := store.CheckUsernamePassword(r.FormValue("username"), r.FormValue("password"), id); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		http.Redirect(w, r, op.AuthCallbackURL(openid)(r.Context(), id), http.StatusFound)
	}))
	return mux, nil
}
