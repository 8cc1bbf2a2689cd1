/** A throw-away CA for tests: keys, issuer certificate, leaf TBSCertificates, and the files a signer daemon needs. */

import 'reflect-metadata'
import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import type { CaIssuer } from '../../src/ca/backend.ts'
import {
  parseSpki,
  SIGNATURE_ALGORITHMS,
  type SignatureAlgorithm,
  subjectKeyIdentifier,
} from '../../src/shared/pki/algorithms.ts'
import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import { contextConstructedTag } from '../../src/shared/pki/der.ts'
import { type DerWriter, encodeDer } from '../../src/shared/pki/der-writer.ts'
import { writeExtension, writeKeyUsage, writeSubjectKeyIdentifier } from '../../src/shared/pki/extensions.ts'
import { encodeCommonName } from '../../src/shared/pki/name.ts'
import {
  type NameConstraints,
  NO_SUBTREES,
  parseNetwork,
  writeNameConstraints,
} from '../../src/shared/pki/name-constraints.ts'
import { EXTENSION, type KeyUsage } from '../../src/shared/pki/oids.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { buildTbsCertificate, type TbsCertificateInput } from '../../src/shared/pki/tbs-certificate.ts'
import { writeTime } from '../../src/shared/pki/time.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

export const DAY_MS = 86_400_000

export type AuthorityKind = 'P-256' | 'P-384' | 'P-521' | 'Ed25519' | 'RSA'

export interface Authority {
  privateKey: KeyObject
  certificate: Buffer
  certificatePem: string
  nameDer: Buffer
  keyIdentifier: Buffer
  algorithm: SignatureAlgorithm
  notBefore: Date
  notAfter: Date
}

export type HashName = 'sha256' | 'sha384' | 'sha512'

function algorithmOf(kind: AuthorityKind, hash: HashName): SignatureAlgorithm {
  if (kind === 'Ed25519') return 'Ed25519'
  const name = hash.toUpperCase() as Uppercase<HashName>
  return kind === 'RSA' ? `${name}withRSA` : `${name}withECDSA`
}

export function makeKeyPair(kind: AuthorityKind): { privateKey: KeyObject; publicKey: KeyObject } {
  if (kind === 'RSA') return generateKeyPairSync('rsa', { modulusLength: 2048 })
  if (kind === 'Ed25519') return generateKeyPairSync('ed25519')
  return generateKeyPairSync('ec', { namedCurve: kind })
}

export const spkiOf = (key: KeyObject): Buffer => key.export({ format: 'der', type: 'spki' })

export function makeAuthority(
  kind: AuthorityKind = 'P-256',
  options: {
    isCa?: boolean
    hash?: HashName
    daysAhead?: number
    /** It begins 30 days ago without it. */
    startsInDays?: number
    name?: string
    /** Who signs it; itself without one. */
    by?: Authority
    pathLength?: number
    /** Empty omits the extension. */
    keyUsages?: readonly KeyUsage[]
    constraints?: NameConstraints
    /** Of an earlier certificate of the same CA. */
    keys?: Pick<Authority, 'privateKey'>
    /** Writes further extensions. */
    more?(writer: DerWriter): void
  } = {},
): Authority {
  const { by, pathLength, keyUsages = ['key_cert_sign', 'crl_sign'] } = options
  const privateKey = options.keys?.privateKey ?? makeKeyPair(kind).privateKey
  const publicKey = createPublicKey(privateKey)
  const algorithm = algorithmOf(kind, options.hash ?? 'sha256')
  const spki = spkiOf(publicKey)
  const keyIdentifier = subjectKeyIdentifier(parseSpki(spki).keyBits)
  const nameDer = encodeCommonName(options.name ?? `Test CA ${kind}`)
  const startOfDay = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const notBefore = new Date(startOfDay + (options.startsInDays ?? -30) * DAY_MS)
  const notAfter = new Date(startOfDay + (options.daysAhead ?? 3650) * DAY_MS)
  const tbs = encodeDer((writer) =>
    writer.sequence(() => {
      writer.constructed(contextConstructedTag(0), () => writer.smallInteger(2))
      writer.unsignedInteger(randomBytes(16))
      writer.raw(SIGNATURE_ALGORITHMS[by?.algorithm ?? algorithm].identifierDer)
      writer.raw(by?.nameDer ?? nameDer)
      writer.sequence(() => {
        writeTime(writer, notBefore)
        writeTime(writer, notAfter)
      })
      writer.raw(nameDer)
      writer.raw(spki)
      writer.constructed(contextConstructedTag(3), () =>
        writer.sequence(() => {
          writeExtension(writer, EXTENSION.basicConstraints, true, () =>
            writer.sequence(() => {
              if (options.isCa ?? true) writer.boolean(true)
              if (pathLength !== undefined) writer.smallInteger(pathLength)
            }),
          )
          if (keyUsages.length > 0) writeKeyUsage(writer, keyUsages)
          writeSubjectKeyIdentifier(writer, keyIdentifier)
          if (options.constraints) writeNameConstraints(writer, options.constraints)
          options.more?.(writer)
        }),
      )
    }),
  )
  const certificate = signedBy(by ?? { algorithm, privateKey }, tbs)
  const certificatePem = encodePem('CERTIFICATE', certificate)
  return { privateKey, certificate, certificatePem, nameDer, keyIdentifier, algorithm, notBefore, notAfter }
}

interface Listed {
  dns?: readonly string[]
  ip?: readonly string[]
}

/** Networks as `10.0.0.0/8`. */
export function constraintsOn(permitted: Listed, excluded: Listed = {}): NameConstraints {
  const subtrees = ({ dns, ip }: Listed) => ({
    ...NO_SUBTREES,
    dns,
    ip: ip?.flatMap((text) => parseNetwork(text) ?? []),
  })
  return { permitted: subtrees(permitted), excluded: subtrees(excluded) }
}

const LEAF_SPKI = spkiOf(makeKeyPair('P-256').publicKey)

/** A TBSCertificate that every default policy accepts, but for what `changes` says. */
/** The issuer as a backend names it; its chain ends with itself unless another one is given. */
export function caIssuerOf(authority: Authority, more: Partial<CaIssuer> = {}): CaIssuer {
  const { certificate, nameDer, keyIdentifier, algorithm: signatureAlgorithm, notBefore, notAfter } = authority
  const dated = { certificate, nameDer, keyIdentifier, signatureAlgorithm, notBefore, notAfter }
  return { id: 'default', chain: [certificate], alternateChains: [], constraints: [], ...dated, ...more }
}

export function leafInput(authority: Authority, changes: Partial<TbsCertificateInput> = {}): TbsCertificateInput {
  const notBefore = new Date(Math.floor(Date.now() / 1000) * 1000 - 3_600_000)
  return {
    // The leading octet keeps the number positive and 16 octets long.
    serialNumber: Buffer.concat([Buffer.of(0x40), randomBytes(15)]),
    issuerNameDer: authority.nameDer,
    authorityKeyIdentifier: authority.keyIdentifier,
    signatureAlgorithm: authority.algorithm,
    notBefore,
    notAfter: new Date(notBefore.getTime() + 90 * DAY_MS - 1000),
    spki: LEAF_SPKI,
    dnsNames: ['www.example.org'],
    ipAddresses: [],
    keyUsages: ['digital_signature'],
    extendedKeyUsages: ['server_auth'],
    ...changes,
  }
}

export const leafTbs = (authority: Authority, changes: Partial<TbsCertificateInput> = {}): Buffer =>
  buildTbsCertificate(leafInput(authority, changes))

/** The certificate whose TBSCertificate this is. */
export const signedBy = ({ algorithm, privateKey }: Pick<Authority, 'algorithm' | 'privateKey'>, tbs: Buffer): Buffer =>
  assembleCertificate(tbs, algorithm, sign(SIGNATURE_ALGORITHMS[algorithm].hash, tbs, privateKey))

export interface SignerFiles {
  folder: string
  config: string
  socket: string
  secret: Buffer
  auditFile: string
}

/** The `pkcs11` section of a key, with the names it has in the file. */
export type TokenKeyYaml = Readonly<Record<string, string | number | boolean>>

/**
 * Writes what a daemon needs into a new folder (mode 0700), which goes with the process.
 * @param tokenKeys issuers whose key is in a token
 */
export function writeSignerFiles(
  authorities: Record<string, Authority>,
  extraYaml = '',
  policyYaml = '{}',
  tokenKeys: Readonly<Record<string, TokenKeyYaml>> = {},
): SignerFiles {
  const folder = temporaryFolder()
  const write = (name: string, content: string | Buffer) =>
    writeFileSync(path.join(folder, name), content, { mode: 0o600 })
  const secret = randomBytes(32)
  write('secret', secret)
  const issuers = Object.entries(authorities).map(([id, authority]) => {
    write(`${id}.pem`, authority.certificatePem)
    const pkcs11 = tokenKeys[id]
    if (!pkcs11) write(`${id}.key`, authority.privateKey.export({ format: 'pem', type: 'pkcs8' }))
    const { hash } = SIGNATURE_ALGORITHMS[authority.algorithm]
    const key = pkcs11 ? JSON.stringify({ pkcs11 }) : `{ file: ${id}.key }`
    return `  - id: ${id}\n    certificate: ${id}.pem\n    key: ${key}\n    hash: ${hash ?? 'sha256'}\n    policy: ${policyYaml}\n`
  })
  const head = 'socket: signer.sock\nsecret_file: secret\naudit: { file: audit.jsonl }\nlog: { level: warn }\n'
  write('signer.yaml', `${head}${extraYaml}issuers:\n${issuers.join('')}`)
  const at = (name: string) => path.join(folder, name)
  return { folder, config: at('signer.yaml'), socket: at('signer.sock'), secret, auditFile: at('audit.jsonl') }
}
