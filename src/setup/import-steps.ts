/** The steps that take over an issuer of another program. */

import type { Answers } from './answers.ts'
import { type Facts, type GivenCertificates, isThere, PLACES } from './facts.ts'
import type { Step } from './step.ts'

const IMPORT_PASSPHRASE = 'CHANCERY_IMPORT_PASSPHRASE'
const OF_SIGNER = { mode: 0o600, owner: 'chancery-signer', group: 'chancery-signer' } as const

/** The key stays encrypted as it was; its passphrase goes where the signer reads it. */
export function importedKey(answers: Answers, facts: Facts, given: GivenCertificates | undefined): Step[] {
  if (isThere(facts, PLACES.issuerKey)) return []
  const { import_from, import_path, import_key, import_passphrase } = answers
  const isEncrypted = import_passphrase !== ''
  const env = { [IMPORT_PASSPHRASE]: import_passphrase }
  const out = isEncrypted ? ['-passout', `env:${IMPORT_PASSPHRASE}`] : ['-nodes']
  const legacy = given?.isLegacy ? ['-legacy'] : []
  const words = [
    'openssl',
    'pkcs12',
    ...legacy,
    '-in',
    import_path,
    '-passin',
    `env:${IMPORT_PASSPHRASE}`,
    '-nocerts',
    ...out,
  ]
  const from = import_from === 'pem' ? import_key : `${import_path}/secrets/intermediate_ca_key`
  return [
    ...(isEncrypted
      ? [
          {
            title: 'Keep the passphrase of the key where only the signer can read it',
            work: {
              kind: 'file',
              path: PLACES.issuerPassphrase,
              text: `${import_passphrase}\n`,
              isSecret: true,
              ...OF_SIGNER,
            },
          } as const,
        ]
      : []),
    import_from === 'pkcs12'
      ? {
          title: `Take the key out of ${import_path}`,
          work: {
            kind: 'run',
            command: { words: [...words, '-out', `${PLACES.folder}/issuer.key.taken`], as: 'root', env },
            unless: PLACES.issuerKey,
          },
        }
      : {
          title: `Copy the key from ${from}`,
          work: { kind: 'copy', from, to: PLACES.issuerKey, isMove: false, ...OF_SIGNER },
        },
    ...(import_from === 'pkcs12'
      ? [
          {
            title: "Give the key to the signer's user",
            work: {
              kind: 'copy',
              from: `${PLACES.folder}/issuer.key.taken`,
              to: PLACES.issuerKey,
              isMove: true,
              ...OF_SIGNER,
            },
          } as const,
        ]
      : []),
  ]
}
