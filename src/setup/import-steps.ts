/** The steps that take over an issuer of another program. */

import type { Answers } from './answers.ts'
import { type Facts, type GivenCertificates, isThere, PLACES } from './facts.ts'
import { IMPORT_PASSPHRASE, pkcs12Words, stepKey } from './given-certificates.ts'
import { OF_SIGNER, type Step, stepsOf } from './step.ts'

/** The key stays encrypted as it was; its passphrase goes where the signer reads it. */
export function importedKey(answers: Answers, facts: Facts, given: GivenCertificates | undefined): Step[] {
  if (isThere(facts, PLACES.issuerKey)) return []
  const { import_from, import_path, import_key, import_passphrase } = answers
  const from = import_from === 'pem' ? import_key : stepKey(import_path)
  const text = `${import_passphrase}\n`
  const key: Step = {
    title: `Copy the key from ${from}`,
    work: { kind: 'copy', from, to: PLACES.issuerKey, isMove: false, ...OF_SIGNER },
  }
  return stepsOf(
    import_passphrase !== '' && {
      title: 'Keep the passphrase of the key where only the signer can read it',
      work: { kind: 'file', path: PLACES.issuerPassphrase, text, isSecret: true, ...OF_SIGNER },
    },
    ...(import_from === 'pkcs12' ? takenKey(import_path, import_passphrase, given?.isLegacy === true) : [key]),
  )
}

function takenKey(file: string, passphrase: string, isLegacy: boolean): Step[] {
  const taken = `${PLACES.folder}/issuer.key.taken`
  const words = [
    ...pkcs12Words(file, isLegacy),
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
