/** An administrator reports in an incident a key in any form, a type of key, an account, a credential, or a name. Pure. */

import { createPublicKey } from 'node:crypto'
import { hashSpki, parseSpki } from '../shared/pki/algorithms.ts'
import { parseCertificate } from '../shared/pki/certificate.ts'
import { parseCsr } from '../shared/pki/csr.ts'
import { decodePem } from '../shared/pki/pem.ts'

/** `word` is a kid, which only the database can tell, a type of key, or a name. */
type Reported =
  | { kind: 'key'; spkiSha256: string; readAs: string }
  | { kind: 'account'; id: string }
  | { kind: 'word'; text: string }

/** A sentence that never quotes the text, which may be a secret. */
export class UnreadableReport extends Error {}

const PRIVATE = /-----BEGIN [A-Z ]*PRIVATE KEY-----/
const SHA256 = /^(?:[0-9a-f]{2}:?){31}[0-9a-f]{2}$/i
const ACCOUNT = /^(?:https?:\/\/\S+\/)?([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})$/i
const MOST_OF_A_NAME = 255

/** @throws UnreadableReport */
export function readReport(text: string): Reported {
  const trimmed = text.trim()
  if (PRIVATE.test(trimmed)) throw privateKey()
  if (trimmed.includes('-----BEGIN ')) return readable(() => keyOfPem(trimmed))
  if (trimmed.startsWith('{')) return keyOfJwk(trimmed)
  if (SHA256.test(trimmed)) return key(trimmed.replaceAll(':', '').toLowerCase(), 'SHA-256 of the public key')
  const [, account] = ACCOUNT.exec(trimmed) ?? []
  if (account !== undefined) return { kind: 'account', id: account.toLowerCase() }
  if (trimmed.length > MOST_OF_A_NAME || !/^[\p{L}\p{M}\p{N}\p{P}\p{S} ]+$/u.test(trimmed)) throw unreadable()
  return { kind: 'word', text: trimmed }
}

const key = (spkiSha256: string, readAs: string): Reported => ({ kind: 'key', spkiSha256, readAs })

const privateKey = () =>
  new UnreadableReport('this is a private key; send its public key only, and treat the private key as leaked')
const unreadable = () =>
  new UnreadableReport(
    'this is no public key, JWK, certificate, CSR, SHA-256 of a public key, account, kid, type of key or name that can be read',
  )

function keyOfPem(text: string): Reported {
  const [block] = decodePem(text)
  if (block?.label === 'CERTIFICATE')
    return key(hashSpki(parseCertificate(block.der).tbs.spki).toString('hex'), 'the key of a certificate')
  if (block?.label === 'CERTIFICATE REQUEST')
    return key(hashSpki(parseCsr(block.der).spki).toString('hex'), 'the key of a CSR')
  if (block?.label === 'PUBLIC KEY') return key(hashSpki(parseSpki(block.der)).toString('hex'), 'a public key')
  throw unreadable()
}

const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

function keyOfJwk(text: string): Reported {
  const jwk = readable(() => JSON.parse(text) as Record<string, unknown>)
  if (PRIVATE_MEMBERS.some((member) => Object.hasOwn(jwk, member))) throw privateKey()
  const spki = readable(() => createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'der' }))
  return key(hashSpki({ der: spki }).toString('hex'), 'a JWK')
}

/** The parsers' own errors may quote what they read. */
function readable<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof UnreadableReport ? error : unreadable()
  }
}
