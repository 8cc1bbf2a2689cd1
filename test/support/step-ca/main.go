// step-ca from Debian's library package, which has no program: serves with a ca.json until SIGTERM, or adds a key for
// external account bindings to the database, as only its paid edition does through an API.
package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"

	acme "github.com/smallstep/certificates/acme/db/nosql"
	"github.com/smallstep/certificates/authority/config"
	"github.com/smallstep/certificates/ca"
	"github.com/smallstep/nosql"
)

func main() {
	settings, err := config.LoadConfiguration(os.Args[1])
	if err == nil {
		if len(os.Args) > 2 {
			err = addKey(settings, os.Args[2], os.Args[3])
		} else {
			err = serve(settings)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(settings *config.Config) error {
	server, err := ca.New(settings, ca.WithConfigFile(os.Args[1]))
	if err != nil {
		return err
	}
	go ca.StopHandler(server)
	return server.Run()
}

// addKey prints the key's id and, in base64url, its octets.
func addKey(settings *config.Config, provisioner, reference string) error {
	db, err := nosql.New(settings.DB.Type, settings.DB.DataSource)
	if err != nil {
		return err
	}
	defer db.Close()
	keys, err := acme.New(db)
	if err != nil {
		return err
	}
	key, err := keys.CreateExternalAccountKey(context.Background(), "acme/"+provisioner, reference)
	if err != nil {
		return err
	}
	fmt.Println(key.ID, base64.RawURLEncoding.EncodeToString(key.KeyBytes))
	return nil
}
