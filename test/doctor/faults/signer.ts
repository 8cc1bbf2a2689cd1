/** The policy of the signer, and the way to it. */

import { writeFileSync } from 'node:fs'
import { at, type Fault } from './fault.ts'

export const SIGNER: Fault[] = [
  {
    name: 'the policy is shorter than the profile',
    id: 'signer.validity',
    mend: /policy/,
    signer: { 'issuers.0.policy.max_validity_days': 30 },
  },
  {
    name: 'the policy lacks a kind of key',
    id: 'signer.key-types',
    mend: /key_types/,
    signer: { 'issuers.0.policy.key_types': ['RSA'] },
  },
  {
    name: 'the policy lacks a usage',
    id: 'signer.usages',
    mend: /policy/,
    signer: { 'issuers.0.policy.extended_key_usages': ['client_auth'] },
  },
  {
    name: 'the policy permits other names',
    id: 'signer.names',
    mend: /permitted/,
    signer: { 'issuers.0.policy.permitted.dns': ['corp.example'] },
  },
  {
    name: 'the policy permits other URLs of lists',
    id: 'signer.crl',
    mend: /ca\.crl_url/,
    signer: { 'issuers.0.policy.crl_urls': ['http://crl.corp.test/'] },
  },
  {
    name: 'the policy permits shorter lists',
    id: 'signer.crl',
    mend: /policy/,
    signer: { 'issuers.0.policy.max_crl_validity_days': 0.5 },
  },
  {
    name: 'the policy permits no early start',
    id: 'signer.start',
    mend: /policy/,
    signer: { 'issuers.0.policy.max_start_offset_days': 1 },
  },
  {
    name: 'the name of the service’s own certificate is not permitted',
    id: 'signer.own-names',
    mend: /policy/,
    config: (stand) => ({
      'server.tls': {
        cert_path: at(stand, 'own.pem'),
        key_path: at(stand, 'own.key'),
        self_issued_names: ['acme.corp.example'],
      },
    }),
  },
  {
    name: 'a profile names an issuer that is not there',
    id: 'signer.profiles',
    mend: /add the issuer/,
    config: { 'ca.profiles': { short: { issuer: ['short-lived'] } } },
  },
  {
    name: 'the secrets of service and signer differ',
    id: 'signer.reachable',
    mend: /secret_file/,
    config(stand) {
      writeFileSync(at(stand, 'other.secret'), 'another secret that has more than thirty-two bytes\n', { mode: 0o600 })
      return { 'ca.signer.secret_file': at(stand, 'other.secret') }
    },
    blinds: true,
  },
]
