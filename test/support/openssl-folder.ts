/** A folder in which `openssl ca` issues and revokes: index.txt, newcerts and what belongs to them. */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { mustRun } from './run-command.ts'

export interface OpensslFolder {
  folder: string
  /** @returns the file with the certificate */
  issue(name: string): Promise<string>
  revoke(file: string, reason: string): Promise<void>
}

/** @param issuer PEM files of a CA */
export function makeOpensslFolder(folder: string, issuer: { certificate: string; key: string }): OpensslFolder {
  const file = (name: string) => path.join(folder, name)
  mkdirSync(file('newcerts'), { recursive: true })
  writeFileSync(file('index.txt'), '')
  const config = `
    [ca]
    default_ca = here
    [here]
    database = ${file('index.txt')}
    new_certs_dir = ${file('newcerts')}
    certificate = ${issuer.certificate}
    private_key = ${issuer.key}
    rand_serial = yes
    default_md = sha256
    default_days = 30
    policy = any
    copy_extensions = copy
    x509_extensions = leaf
    [any]
    commonName = supplied
    [leaf]
    basicConstraints = CA:FALSE
    [req]
    distinguished_name = name
    [name]`
  writeFileSync(file('openssl.cnf'), config.replaceAll(/^ +/gm, ''))
  const openssl = (command: string, ...args: string[]) =>
    mustRun('openssl', [command, '-config', file('openssl.cnf'), ...args])
  return {
    folder,
    async issue(name) {
      const [key, csr, out] = [file(`${name}.key`), file(`${name}.csr`), file(`${name}.out`)]
      const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key]
      await openssl('req', '-new', ...ec, '-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`, '-out', csr)
      await openssl('ca', '-batch', '-notext', '-in', csr, '-out', out)
      const serial = readFileSync(file('index.txt'), 'utf8').trimEnd().split('\t').at(-3)
      return file(`newcerts/${serial}.pem`)
    },
    revoke: async (certificate, reason) => void (await openssl('ca', '-revoke', certificate, '-crl_reason', reason)),
  }
}
