/** The steps that take over an issuer of another program. */

import type { Answers } from './answers.ts'
import { type Facts, type GivenCertificates, isThere, PLACES } from './facts.ts'
import { stepKey } from './given-certificates.ts'
import type { Step } from './step.ts'

const IMPORT_PASSPHRASE = 'CHANCERY_IMPORT_PASSPHRASE'
const OF_SIGNER = { mode: 0o600, owner: 'chancery-signer', group: 'chancery-signer' } as const

/** The key stays encrypted as it was; its passphrase goes where the signer reads it. */
export function importedKey(answers: Answers, facts: Facts, given: GivenCertificates | undefined): Step[] {
  if (isThere(facts, PLACES.issuerKey)) return []
  const { import_from, import_path, import_key, import_passphrase } = answers
  if (import_from === 'pkcs12')
    return [...keptPassphrase(import_passphrase), ...takenKey(import_path, import_passphrase, given?.isLegacy === true)]
  const from = import_from === 'pem' ? import_key : stepKey(import_path)
  return [
    ...keptPassphrase(import_passphrase),
    {
      title: `Copy the key from ${from}`,
      work: { kind: 'copy', from, to: PLACES.issuerKey, isMove: false, ...OF_SIGNER },
    },
  ]
}

function keptPassphrase(passphrase: string): Step[] {
  if (passphrase === '') return []
  return [
    {
      title: 'Keep the passphrase of the key where only the signer can read it',
      work: { kind: 'file', path: PLACES.issuerPassphrase, text: `${passphrase}\n`, isSecret: true, ...OF_SIGNER },
    },
  ]
}

function takenKey(file: string, passphrase: string, isLegacy: boolean): Step[] {
  const taken = `${PLACES.folder}/issuer.key.taken`
  const words = [
    ...['openssl', 'pkcs12', ...(isLegacy ? ['-legacy'] : []), '-in', file, '-passin', `env:${IMPORT_PASSPHRASE}`],
    ...['-nocerts', ...(passphrase === '' ? ['-nodes'] : ['-passout', `env:${IMPORT_PASSPHRASE}`]), '-out', taken],
  ]
  return [
    {
      title: `Take the key out of ${file}`,
      work: {
        kind: 'run',
        command: { words, as: 'root', env: { [IMPORT_PASSPHRASE]: passphrase } },
        unless: PLACES.issuerKey,
      },
    },
    {
      title: "Give the key to the signer's user",
      work: { kind: 'copy', from: taken, to: PLACES.issuerKey, isMove: true, ...OF_SIGNER },
    },
  ]
}
