// Issuer is an OpenID Connect provider for tests, and a client that logs a user in there.
//
//	issuer serve --folder FOLDER --clients kubernetes,other    serves until it is killed, and prints its URL; at --address
//	issuer token --folder FOLDER --client kubernetes           logs in with name and password, and prints the ID token
//
// The folder has the provider's authority in ca.pem and its URL in url.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "issuer:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("serve or token?")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	folder := flags.String("folder", "", "where the provider's authority and URL are")
	address := flags.String("address", "127.0.0.1", "the IP address of this host where the provider answers")
	clients := flags.String("clients", "kubernetes", "the ids of the provider's clients")
	client := flags.String("client", "kubernetes", "the id of the client that logs in")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "serve":
		return serve(*folder, *address, strings.Split(*clients, ","))
	case "token":
		token, err := logIn(*folder, *client)
		if err != nil {
			return err
		}
		fmt.Println(token)
		return nil
	default:
		return fmt.Errorf("%s: serve or token?", args[0])
	}
}
