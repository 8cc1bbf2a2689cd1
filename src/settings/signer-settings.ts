/** The configuration of a signer that the service starts itself, from `ca.internal` or `ca.hsm`. */

import { availableParallelism } from 'node:os'
import path from 'node:path'
import type { IssuerDuties } from '../ca/signer-check.ts'
import type { SignerPlace } from '../ca/signer-place.ts'
import type { SignerProgram } from '../ca/signer-process.ts'
import { signerBackend } from '../config/backends.ts'
import type { Config } from '../config/schema.ts'
import { SUBJECT_KEY_KINDS } from '../domain/certificate-profile.ts'
import { keyUsagesFor } from '../shared/pki/extensions.ts'

/** Signing options without a key in the service's configuration keep the signer's defaults. */
const ISSUER_ID = 'default'
const PIN_VARIABLE = 'CHANCERY_SIGNER_PIN'
/** A file key signs on every processor at most; one thread stays free for the audit chain. */
const FILE_KEY_THREADS = availableParallelism() + 1
/** The largest value the signer accepts; no request waits that long. */
const MAX_SESSION_WAIT_SECONDS = 3600

export function signerProgram(config: Config): SignerProgram {
  return {
    auditFile: auditFileOf(config.ca),
    environment: signerEnvironment(config.ca),
    configFor: (place) => signerConfig(config, place),
  }
}

/**
 * A PKCS#11 library may need any vendor variable, so it gets them all; the same user could read
 * them anyway. The PIN is a variable too, so that no file holds it.
 */
function signerEnvironment(ca: Config['ca']): NodeJS.ProcessEnv {
  const { PATH } = process.env
  const { hsm } = ca
  if (signerBackend(ca) !== 'hsm') return { PATH, NODE_OPTIONS: '', UV_THREADPOOL_SIZE: String(FILE_KEY_THREADS) }
  return {
    ...process.env,
    NODE_OPTIONS: '',
    ...(hsm.login_required && hsm.pin !== null && { [PIN_VARIABLE]: hsm.pin }),
  }
}

function signerConfig(config: Config, place: SignerPlace): object {
  const { ca, logging } = config
  const issuer = signerBackend(ca) === 'hsm' ? tokenIssuer(ca.hsm) : fileIssuer(ca.internal)
  return {
    socket: place.socketPath,
    secret_file: place.secretFile,
    audit: { file: auditFileOf(ca) },
    log: { level: logging.level === 'DEBUG' ? 'debug' : 'info' },
    issuers: [{ id: ISSUER_ID, ...issuer, policy: signerPolicy(config) }],
  }
}

function auditFileOf(ca: Config['ca']): string {
  const { internal, hsm, signer } = ca
  const beside = signerBackend(ca) === 'hsm' ? hsm.issuer_cert_path : internal.root_key_path
  return path.resolve(signer.audit_file ?? path.join(path.dirname(beside ?? '.'), 'signer-audit.jsonl'))
}

/** Where decisions go that the signer does not take: beside the audit chain of a signer of its own, else in the working folder. */
export function decisionsFile({ database, ca }: Config): string {
  if (database.decisions_file !== null) return path.resolve(database.decisions_file)
  const isOwn = signerBackend(ca) !== undefined && ca.signer.socket === null
  return isOwn
    ? path.join(path.dirname(auditFileOf(ca)), 'decisions.jsonl')
    : path.join(process.cwd(), 'decisions.jsonl')
}

/** The issuer of the signer that the service starts itself; undefined with another signer or none. */
export function ownIssuer({ ca }: Config): { id: string; certificateFile: string } | undefined {
  const backend = signerBackend(ca)
  if (backend === undefined || ca.signer.socket !== null) return undefined
  const file = backend === 'hsm' ? ca.hsm.issuer_cert_path : ca.internal.root_cert_path
  return file === null ? undefined : { id: ISSUER_ID, certificateFile: path.resolve(file) }
}

/** The duties that the configuration gives to issuers. */
export const issuerDuties = ({ ca, crl }: Config): IssuerDuties => ({
  signsCrls: crl.enabled,
  purposes: Object.values(ca.profiles).map((profile) => profile.extended_key_usages),
})

function fileIssuer(internal: Config['ca']['internal']): object {
  return {
    certificate: path.resolve(internal.root_cert_path ?? ''),
    ...(internal.chain_path !== null && { chain: path.resolve(internal.chain_path) }),
    hash: internal.hash_algorithm,
    key: { file: path.resolve(internal.root_key_path ?? '') },
  }
}

function tokenIssuer(hsm: Config['ca']['hsm']): object {
  const library = hsm.pkcs11_library ?? ''
  return {
    certificate: path.resolve(hsm.issuer_cert_path ?? ''),
    ...(hsm.chain_path !== null && { chain: path.resolve(hsm.chain_path) }),
    hash: hsm.hash_algorithm,
    key: {
      pkcs11: {
        library: library.includes('/') ? path.resolve(library) : library,
        ...(hsm.token_label !== null && { token: hsm.token_label }),
        ...(hsm.slot_id !== null && { slot: hsm.slot_id }),
        ...(hsm.login_required ? { pin_env: PIN_VARIABLE } : { login: false }),
        ...(hsm.key_label !== null && { label: hsm.key_label }),
        ...(hsm.key_id !== null && { id: hsm.key_id }),
        type: hsm.key_type,
        sessions: hsm.session_pool_size,
        session_wait: Math.min(MAX_SESSION_WAIT_SECONDS, hsm.session_pool_timeout_seconds),
      },
    },
  }
}

/** Allows only what the profiles need, so that a compromised front can obtain nothing more. */
function signerPolicy({ ca, order, crl }: Config): object {
  const profiles = Object.values(ca.profiles)
  const union = <T>(values: (profile: (typeof profiles)[number]) => readonly T[]) => [
    ...new Set(profiles.flatMap((profile) => [...values(profile)])),
  ]
  const keyUsages = union((profile) => profile.key_usages)
  const leavesKeyUsageOut = profiles.some(({ key_types, key_usages }) =>
    key_types.some((type) => keyUsagesFor(SUBJECT_KEY_KINDS[type], key_usages).length === 0),
  )
  const extendedKeyUsages = union((profile) => profile.extended_key_usages)
  return {
    // One day more than the longest profile, for a validity requested to the second.
    max_validity_days: Math.min(3660, ca.max_validity_days + 1),
    // An order may request a start up to its own expiry, and backdating adds to that.
    max_start_offset_days: Math.min(3660, (order.expiry_seconds + ca.backdate_seconds) / 86_400 + 1),
    max_crl_validity_days: Math.ceil(crl.next_update_seconds / 86_400),
    key_types: union((profile) => profile.key_types),
    ...(keyUsages.length > 0 && { key_usages: keyUsages }),
    key_usage_required: !leavesKeyUsageOut,
    ...(extendedKeyUsages.length > 0 && { extended_key_usages: extendedKeyUsages }),
  }
}
