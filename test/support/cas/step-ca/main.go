// step-ca from Debian's library package, which has no program: serves with a ca.json until SIGTERM, or adds a key for
// external account bindings to the database.
package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/smallstep/certificates/authority/config"
	"github.com/smallstep/certificates/ca"
	"github.com/smallstep/nosql"
)

func main() {
	settings, err := config.LoadConfiguration(os.Args[1])
	if err == nil {
		if len(os.Args) > 2 {
			err = addKey(settings, os.Args[2])
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

// In the order of step-ca's own fields: it replaces a record only where it would write the same.
type externalAccountKey struct {
	ID            string    `json:"id"`
	ProvisionerID string    `json:"provisionerID"`
	Reference     string    `json:"reference"`
	Key           []byte    `json:"key"`
	CreatedAt     time.Time `json:"createdAt"`
	BoundAt       time.Time `json:"boundAt"`
}

// addKey prints the key's id and, in base64url, its octets. The database's own log goes to standard error.
// Release 0.19 cannot make a key for a provisioner of ca.json, which has no id, but takes one.
func addKey(settings *config.Config, id string) error {
	db, err := nosql.New(settings.DB.Type, settings.DB.DataSource)
	if err != nil {
		return err
	}
	defer db.Close()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	record, err := json.Marshal(externalAccountKey{ID: id, Key: key, CreatedAt: time.Now().UTC()})
	if err != nil {
		return err
	}
	table := []byte("acme_external_account_keys")
	if err := db.CreateTable(table); err != nil {
		return err
	}
	if err := db.Set(table, []byte(id), record); err != nil {
		return err
	}
	fmt.Println("key", base64.RawURLEncoding.EncodeToString(key))
	return nil
}
