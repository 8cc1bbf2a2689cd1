// step-ca-dump writes what Chancery takes over of a step-ca database as JSON lines, for `chancery import step-ca --dump`.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/smallstep/nosql"
)

// In the order in which the import needs them: an account comes before its certificates, a revocation before what it revokes.
var tables = []string{
	"acme_external_account_keys",
	"acme_accounts",
	"revoked_x509_certs",
	"acme_certs",
	"x509_certs",
}

// Byte slices become base64 in JSON.
type line struct {
	Table string `json:"table"`
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// The last line. A dump without it is not whole.
type end struct {
	Records int `json:"records"`
}

const usage = `step-ca-dump TYPE SOURCE [DATABASE] > FILE

TYPE and SOURCE are "type" and "dataSource" below "db" in step-ca's ca.json, DATABASE is its "database":
  step-ca-dump badgerv2 /root/.step/db
  step-ca-dump bbolt /root/.step/db/step.db
  step-ca-dump mysql @FILE stepca          FILE holds the dataSource, which has a password
Stop step-ca first. Take a copy of a file database, since the library opens it for writing.
FILE holds HMAC keys of external account bindings: keep it from others, and delete it after the import.`

func main() {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err := dump(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "step-ca-dump:", err)
		os.Exit(1)
	}
}

func dump(kind, source string, database []string) error {
	if strings.HasPrefix(source, "@") {
		text, err := os.ReadFile(source[1:])
		if err != nil {
			return err
		}
		source = strings.TrimSpace(string(text))
	}
	// The library would make an empty database where there is none.
	if kind != nosql.MySQLDriver {
		if _, err := os.Stat(source); err != nil {
			return err
		}
	}
	var options []nosql.Option
	if len(database) > 0 {
		options = append(options, nosql.WithDatabase(database[0]))
	}
	db, err := nosql.New(kind, source, options...)
	if err != nil {
		return fmt.Errorf("%w; is step-ca stopped, and is %s its \"type\"?", err, kind)
	}
	defer db.Close()
	out := bufio.NewWriter(os.Stdout)
	records, err := writeTables(db, json.NewEncoder(out))
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(end{records}); err != nil {
		return err
	}
	return out.Flush()
}

func writeTables(db nosql.DB, out *json.Encoder) (int, error) {
	records, found := 0, 0
	for _, table := range tables {
		entries, err := db.List([]byte(table))
		if nosql.IsErrNotFound(err) {
			// Releases before external account bindings have no table of them.
			fmt.Fprintf(os.Stderr, "%s: no such table\n", table)
			continue
		}
		if err != nil {
			return 0, err
		}
		found++
		for _, entry := range entries {
			if err := out.Encode(line{table, entry.Key, entry.Value}); err != nil {
				return 0, err
			}
		}
		records += len(entries)
		fmt.Fprintf(os.Stderr, "%s: %d\n", table, len(entries))
	}
	if found == 0 {
		return 0, fmt.Errorf("none of step-ca's tables is there")
	}
	return records, nil
}
