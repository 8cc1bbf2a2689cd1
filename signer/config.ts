/** Reads the daemon's configuration file: strict YAML. It reports every error at once, with place and remedy. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import * as z from 'zod/v4'
import {
  inFileOrder,
  isSection,
  locate,
  locatedProblems,
  readDocument,
  withSections,
} from '../src/shared/config-file/document.ts'
import { describeIssue } from '../src/shared/config-file/messages.ts'
import { formatNotice } from '../src/shared/config-file/notice.ts'
import { schemaNodeOf } from '../src/shared/config-file/schema-node.ts'
import { describeFileError } from '../src/shared/lib/errors.ts'
import { EXTENDED_KEY_USAGES, type ExtendedKeyUsage, KEY_USAGES } from '../src/shared/pki/oids.ts'
import { RSA_BITS_LIMIT } from '../src/shared/pki/weak-key.ts'
import { DEFAULT_MAX_FRAME_BYTES } from './protocol/frames.ts'
import { DOMAIN } from './subtrees.ts'

const KEY_TYPES = ['RSA', 'P-256', 'P-384', 'P-521', 'Ed25519'] as const
export type KeyType = (typeof KEY_TYPES)[number]

/** Only a CA may sign certificates and CRLs, so no configuration can allow it to a subscriber (RFC 5280 §4.2.1.3). */
const LEAF_KEY_USAGES = KEY_USAGES.filter((usage) => usage !== 'key_cert_sign' && usage !== 'crl_sign')

/** Each session signs in its own thread; see start.cts. */
const MAX_SESSIONS = 32

const File = z.string().min(1)
const Seconds = z.number().positive().max(3600)
const KEY_PURPOSES = Object.keys(EXTENDED_KEY_USAGES) as ExtendedKeyUsage[]
const OID = /^[0-2](\.\d+)+$/
const KeyPurpose = z
  .union([z.enum(KEY_PURPOSES), z.string().regex(OID)])
  .meta({ expects: `one of ${KEY_PURPOSES.join(', ')}, or an OID such as 1.3.6.1.5.5.7.3.4` })
const DnsSuffix = z.string().regex(DOMAIN).meta({ expects: 'a lower-case domain without a leading dot or *' })
const Network = z.union([z.cidrv4(), z.cidrv6()]).meta({ expects: 'a network such as 10.0.0.0/8 or 2001:db8::/32' })
/** An operator may write the secret itself here by mistake, so messages do not repeat the value. */
const SecretFile = File.meta({
  secret: true,
  description: 'Mode 600 or 400; a final line break does not belong to it.',
})
const SecretVariable = z.string().min(1).meta({ secret: true })

const Subtrees = z.strictObject({
  dns: z.array(DnsSuffix).optional().meta({ description: 'A domain means itself and all names below it.' }),
  ip: z.array(Network).optional(),
})

const Policy = z.strictObject({
  max_validity_days: z.number().positive().max(3660).default(398),
  max_start_offset_days: z.number().positive().max(3660).default(8).meta({
    description: 'How far notBefore may lie from the clock of the signer, both ways; an order may wait for 7 days.',
  }),
  key_types: z
    .array(z.enum(KEY_TYPES))
    .min(1)
    .default([...KEY_TYPES]),
  min_rsa_bits: z.int().min(2048).max(RSA_BITS_LIMIT).default(2048),
  max_rsa_bits: z.int().min(2048).max(RSA_BITS_LIMIT).default(RSA_BITS_LIMIT),
  key_usages: z
    .array(z.enum(LEAF_KEY_USAGES))
    .min(1)
    .default(['digital_signature', 'key_encipherment', 'key_agreement']),
  key_usage_required: z.boolean().default(true).meta({
    description: 'Without the extension a key may be used for anything, so false allows more than key_usages lists.',
  }),
  extended_key_usages: z.array(KeyPurpose).min(1).default(['server_auth', 'client_auth']),
  min_serial_octets: z
    .int()
    .min(8)
    .max(20)
    .default(8)
    .meta({ description: 'Octets of the INTEGER; 64 random bits take 8.' }),
  permitted: Subtrees.default({}).meta({
    description: 'When dns (or ip) is listed, names of that type must be inside; an empty list allows none.',
  }),
  excluded: Subtrees.default({}).meta({ description: 'Wins over permitted.' }),
  subject_attributes: z
    .array(z.enum(['CN', 'O', 'OU', 'L', 'ST', 'C']))
    .default(['CN'])
    .meta({
      description: 'Attribute types a subject may hold. A CN must repeat one of the subject alternative names.',
    }),
  extra_extensions: z
    .array(z.string().regex(OID).meta({ expects: 'an OID such as 1.3.6.1.5.5.7.1.24' }))
    .default([])
    .meta({ description: 'Non-critical extensions accepted unread, beside those every leaf has.' }),
  max_crl_validity_days: z.number().positive().max(3660).default(32).meta({
    description: 'From thisUpdate to nextUpdate of a CRL.',
  }),
  crl_urls: z
    .array(z.url({ protocol: /^https?$/ }).meta({ expects: 'an http:// or https:// URL' }))
    .optional()
    .meta({
      description:
        'URLs at or below which those of CRLs must be, in certificates and in CRLs: same host and port, same first folders. Without it any URL is accepted.',
    }),
  max_signatures_per_second: z.number().positive().optional(),
})

const atMostOne = (...names: string[]) =>
  [
    (key: object) => names.filter((name) => (key as Record<string, unknown>)[name]).length <= 1,
    `set only one of ${names.join(', ')}`,
  ] as const

const Pkcs11 = z
  .strictObject({
    library: File.meta({ description: 'The PKCS #11 library of the token, a shared object.' }),
    token: z.string().min(1).max(32).optional().meta({ description: 'Label of the token.' }),
    slot: z.int().min(0).optional().meta({ description: 'Slot of the token, instead of its label or beside it.' }),
    pin_file: SecretFile.optional(),
    pin_env: SecretVariable.optional(),
    pin_prompt: z.boolean().optional().meta({ description: 'Ask on the terminal at the start.' }),
    login: z.boolean().default(true).meta({ description: 'Without it the key must be usable without a PIN.' }),
    label: z.string().min(1).optional().meta({ description: 'CKA_LABEL of the private key.' }),
    id: z
      .string()
      .regex(/^([0-9A-Fa-f]{2})+$/)
      .optional()
      .meta({ description: 'CKA_ID of the private key.', expects: 'hexadecimal bytes in quotes such as "01af"' }),
    type: z
      .enum(['rsa', 'ec'])
      .optional()
      .meta({ description: 'When given, the certificate must hold a key of this kind.' }),
    sessions: z.int().min(1).max(MAX_SESSIONS).default(4).meta({ description: 'Signatures made at the same time.' }),
    session_wait: Seconds.default(30).meta({ description: 'How long a signature waits for a free session.' }),
  })
  .refine(...atMostOne('pin_file', 'pin_env', 'pin_prompt'))
  .refine(({ token, slot }) => token !== undefined || slot !== undefined, 'set token or slot')
  .refine(({ label, id }) => label !== undefined || id !== undefined, 'set label or id of the key')

const PASSPHRASE = ['passphrase_file', 'passphrase_env', 'passphrase_prompt'] as const

const Key = z
  .strictObject({
    file: File.optional().meta({ description: 'PEM, mode 600 or 400, encrypted or not.' }),
    passphrase_file: SecretFile.optional(),
    passphrase_env: SecretVariable.optional(),
    passphrase_prompt: z.boolean().optional().meta({ description: 'Ask on the terminal at the start.' }),
    pkcs11: Pkcs11.optional().meta({ description: 'A key in a token, instead of a file.' }),
  })
  .refine(...atMostOne(...PASSPHRASE))
  .refine((key) => (key.file === undefined) !== (key.pkcs11 === undefined), 'set either file or pkcs11')
  .refine((key) => key.file !== undefined || !PASSPHRASE.some((name) => key[name]), 'a passphrase is for a key file')

const Issuer = z.strictObject({
  id: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
    .meta({ expects: '1 to 64 letters, digits, dots, dashes or underscores' }),
  certificate: File.meta({ description: 'PEM file whose first certificate is the issuer; more make up the chain.' }),
  chain: File.optional().meta({ description: 'PEM file with the certificates above the issuer, in order.' }),
  alternate_chains: z.array(File).max(9).default([]).meta({
    description: 'PEM files with whole chains to other roots; each begins with a certificate of the same name and key.',
  }),
  hash: z.enum(['sha256', 'sha384', 'sha512']).default('sha256').meta({ description: 'Ignored by Ed25519.' }),
  key: Key,
  policy: Policy.prefault({}),
})

const Config = z
  .strictObject({
    user: z.string().min(1).optional().meta({
      description:
        'Started as root, the daemon becomes this user once it has read secret and keys; folders of socket and audit chain are its own.',
    }),
    group: z.string().min(1).optional().meta({ description: 'Its group, and thereby that of the socket.' }),
    socket: File.meta({ description: 'Unix socket; its directory is made with mode 0750 when missing.' }),
    secret_file: File.meta({ description: 'At least 32 bytes, mode 600 or 640; the same file that the front reads.' }),
    audit: z.strictObject({
      file: File,
      max_bytes: z
        .int()
        .min(64 * 1024)
        .default(256 * 1024 * 1024)
        .meta({ description: 'Size at which the file is closed and a new one continues the chain.' }),
      records_max_bytes: z
        .int()
        .min(64 * 1024 * 1024)
        .default(16 * 1024 ** 3)
        .meta({
          description:
            'Of certificates, revocations and decisions beside the audit file; the oldest go. A certificate takes 0.35 KB.',
        }),
    }),
    crl_numbers_file: File.optional().meta({
      description: 'Keeps the number of the newest CRL of each issuer; the audit file with `.crl-numbers` when absent.',
    }),
    log: z
      .strictObject({ level: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info') })
      .prefault({}),
    limits: z
      .strictObject({
        connections: z.int().min(1).max(10_000).default(64),
        requests_in_flight: z.int().min(1).max(100_000).default(1024),
        frame_bytes: z
          .int()
          .min(16_384)
          .max(256 * 1024 * 1024)
          .default(DEFAULT_MAX_FRAME_BYTES),
        crl_bytes: z
          .int()
          .min(65_536)
          .max(2 ** 32 - 1)
          .default(256 * 1024 * 1024)
          .meta({ description: 'Of one TBSCertList; a million entries have about 42 MB.' }),
        handshake_timeout: Seconds.default(5),
        graceful_timeout: Seconds.default(10),
      })
      .prefault({}),
    issuers: z
      .array(Issuer)
      .min(1)
      .refine(
        (issuers) => new Set(issuers.map(({ id }) => id)).size === issuers.length,
        'two issuers have the same id',
      ),
  })
  .refine(({ user, group }) => (user === undefined) === (group === undefined), 'set both user and group, or neither')

export type SignerConfig = z.infer<typeof Config>
export type IssuerConfig = SignerConfig['issuers'][number]
export type KeyConfig = IssuerConfig['key']
export type PolicyConfig = IssuerConfig['policy']

/** All errors of a configuration file, one `file: key (line 3): reason` a line. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'

  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
  }
}

/** Reads the file. Relative paths in it start at its folder. @throws ConfigError */
export function loadConfig(file: string): SignerConfig {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (cause) {
    throw new ConfigError([`${file}: cannot be read: ${describeFileError(cause)}`])
  }
  return withAbsolutePaths(parseConfig(text, file), path.dirname(path.resolve(file)))
}

/** @param file only for messages. @throws ConfigError */
export function parseConfig(text: string, file: string): SignerConfig {
  const source = readDocument(text, 'yaml')
  const problems = locatedProblems(source)
  if (source.value !== undefined && !isSection(source.value)) {
    throw new ConfigError([`${file}: holds no keys; must be keys with values, such as "socket:"`])
  }
  const schema = schemaNodeOf(Config)
  const raw = withSections(source.value ?? {}, schema)
  const parsed = source.value === undefined ? undefined : Config.safeParse(raw)
  if (parsed?.success && problems.length === 0) return parsed.data

  const violations = parsed?.error?.issues.flatMap((issue) => describeIssue(issue, raw, schema)) ?? []
  const located = inFileOrder([...problems, ...violations.map((violation) => locate(source, violation))])
  throw new ConfigError(located.map((notice) => `${file}: ${formatNotice(notice)}`))
}

function withAbsolutePaths(config: SignerConfig, base: string): SignerConfig {
  const absolute = (file: string) => path.resolve(base, file)
  return {
    ...config,
    socket: absolute(config.socket),
    secret_file: absolute(config.secret_file),
    audit: { ...config.audit, file: absolute(config.audit.file) },
    ...(config.crl_numbers_file !== undefined && { crl_numbers_file: absolute(config.crl_numbers_file) }),
    issuers: config.issuers.map((issuer) => ({
      ...issuer,
      certificate: absolute(issuer.certificate),
      ...(issuer.chain !== undefined && { chain: absolute(issuer.chain) }),
      alternate_chains: issuer.alternate_chains.map(absolute),
      key: withAbsoluteKeyPaths(issuer.key, absolute),
    })),
  }
}

function withAbsoluteKeyPaths(key: KeyConfig, absolute: (file: string) => string): KeyConfig {
  return {
    ...key,
    ...(key.file !== undefined && { file: absolute(key.file) }),
    ...(key.passphrase_file !== undefined && { passphrase_file: absolute(key.passphrase_file) }),
    ...(key.pkcs11 !== undefined && {
      pkcs11: {
        ...key.pkcs11,
        // The system loader searches its own paths for a name without a slash.
        library: key.pkcs11.library.includes('/') ? absolute(key.pkcs11.library) : key.pkcs11.library,
        ...(key.pkcs11.pin_file !== undefined && { pin_file: absolute(key.pkcs11.pin_file) }),
      },
    }),
  }
}
