/**
 * A CA module (docs/ca-modules.md) that issues through a command, such as openssl-ca.sh beside it.
 *
 * The command is called with one more word: `issue`, `revoke` or `check`. It reads the CSR, or the certificate to be
 * revoked, on standard input, and its environment has the rest. Its exit code says what came of it:
 *
 *   0   done; of `issue`, standard output is the chain in PEM, the certificate first
 *   2   refused for good; standard error has the reason, for the log
 *   75  nothing has happened; tried again, or by the next backend
 *
 * After any other code a certificate may exist, so `issue` is called again with the same CHANCERY_CERTIFICATE_ID.
 */

import { spawn } from 'node:child_process'

const REFUSED = 2
const NOTHING_HAPPENED = 75
const MAX_OUTPUT = 200_000
const PATH = '/usr/local/bin:/usr/bin:/bin'

export class CommandCa {
  #command
  #environment

  /** What it throws refuses the start. */
  static validate({ command, environment = {} }) {
    const isText = (value) => typeof value === 'string'
    if (!Array.isArray(command) || command.length === 0 || !command.every(isText))
      throw new Error('command must be a list: a program and its arguments')
    if (typeof environment !== 'object' || environment === null || !Object.values(environment).every(isText))
      throw new Error('environment must hold texts')
  }

  constructor({ command, environment = {} }) {
    this.#command = command
    this.#environment = environment
  }

  async issue(order, { signal }) {
    const { code, output, complaint } = await this.#run('issue', order.csr, variablesOf(order), signal)
    if (code === 0) return { status: 'issued', chain: output }
    if (code === REFUSED) return { status: 'refused', reason: complaint }
    throw Object.assign(new Error(`ended with ${code}: ${complaint}`), { mayHaveIssued: code !== NOTHING_HAPPENED })
  }

  async revoke({ serialNumber, certificate, reason }, { signal }) {
    const variables = { CHANCERY_SERIAL_NUMBER: serialNumber, CHANCERY_REASON: String(reason) }
    this.#require(await this.#run('revoke', certificate, variables, signal))
  }

  async checkHealth(_, { signal }) {
    this.#require(await this.#run('check', '', {}, signal))
  }

  #require({ code, complaint }) {
    if (code !== 0) throw new Error(`ended with ${code}: ${complaint}`)
  }

  #run(word, input, variables, signal) {
    const [program, ...words] = this.#command
    const env = { PATH, ...this.#environment, ...variables }
    const child = spawn(program, [...words, word], { env, signal, killSignal: 'SIGKILL' })
    let output = ''
    let complaint = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
      if (output.length > MAX_OUTPUT) child.kill('SIGKILL')
    })
    child.stderr.on('data', (chunk) => {
      complaint = `${complaint}${chunk}`.slice(-500)
    })
    // A command that reads nothing has closed it.
    child.stdin.on('error', () => undefined)
    child.stdin.end(input)
    return new Promise((resolve, reject) => {
      child.on('error', (error) =>
        reject(child.pid === undefined ? Object.assign(error, { mayHaveIssued: false }) : error),
      )
      child.on('close', (code, killed) => resolve({ code: code ?? killed, output, complaint: complaint.trim() }))
    })
  }
}

/** As OpenSSL writes them: `DNS:www.example.org,IP:192.0.2.1` and `serverAuth,clientAuth`. */
function variablesOf({ certificateId, identifiers, profile, extendedKeyUsages, validityDays, requested }) {
  return {
    CHANCERY_CERTIFICATE_ID: certificateId,
    CHANCERY_NAMES: identifiers.map(({ type, value }) => `${type.toUpperCase()}:${value}`).join(','),
    CHANCERY_PROFILE: profile,
    CHANCERY_EXTENDED_KEY_USAGES: extendedKeyUsages.map(openSslName).join(','),
    CHANCERY_VALIDITY_DAYS: String(validityDays),
    CHANCERY_NOT_BEFORE: requested.notBefore?.toISOString() ?? '',
    CHANCERY_NOT_AFTER: requested.notAfter?.toISOString() ?? '',
  }
}

const openSslName = (usage) =>
  usage === 'ocsp_signing' ? 'OCSPSigning' : usage.replace(/_(.)/g, (_, letter) => letter.toUpperCase())
