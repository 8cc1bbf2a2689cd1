/**
 * A CA module (docs/ca-modules.md) that signs what the service builds: a command makes the signature, here
 * `openssl dgst -sha256 -sign KEY`, elsewhere the program of a key management service.
 */

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'

export class SigningCa {
  #chain
  #command

  /** What it throws refuses the start. `chain` is a PEM file, the signing certificate first. */
  constructor({ chain, command }) {
    if (typeof chain !== 'string') throw new Error('chain must name a PEM file')
    if (!Array.isArray(command) || command.length === 0) throw new Error('command must be a list')
    readFileSync(chain)
    this.#chain = chain
    this.#command = command
  }

  /** Read for every certificate, so a new issuer counts at once. */
  issuer() {
    return readFileSync(this.#chain, 'utf8')
  }

  sign(tbs, { algorithm, signal }) {
    const [program, ...words] = this.#command
    if (!/^SHA256with/.test(algorithm)) throw Object.assign(new Error(`no ${algorithm}`), { mayHaveIssued: false })
    const env = { PATH: '/usr/local/bin:/usr/bin:/bin' }
    return new Promise((resolve, reject) => {
      const child = execFile(
        program,
        words,
        { encoding: 'buffer', env, signal, killSignal: 'SIGKILL' },
        (error, signature) => (error ? reject(error) : resolve(signature)),
      )
      // A command that reads nothing has closed it.
      child.stdin.on('error', () => undefined)
      child.stdin.end(tbs)
    })
  }
}
