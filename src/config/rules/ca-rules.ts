/** Rules for the backend that signs and for the profiles of certificates. */

import { isSigner } from '../../domain/csr-issuance.ts'
import { isBase64url } from '../../shared/lib/encoding.ts'
import { backendsOf, FAILOVER, isModule, keyOfBackend, usedBackends, usedModules, usesBackend } from '../backends.ts'
import { caModuleConfig, moduleReferenceOf } from '../ca-module.ts'
import { HANDLER_METHODS, handlerReferenceOf, readChallengeHandler } from '../challenge-handler.ts'
import type { Config } from '../schema.ts'
import { atMost, not, type Rule, required } from './rule.ts'

const proxied = (c: Config) => usesBackend(c, 'acme_proxy')
const HANDLER_READS = ['ca.backend', 'ca.acme_proxy.challenge_handler']

const wrongHandler = (handler: string | null) => {
  const reference = handler === null ? undefined : handlerReferenceOf(handler)
  return typeof reference === 'string' ? reference : undefined
}

export const ACME_PROXY: readonly Rule[] = [
  {
    path: 'ca.acme_proxy.challenge_handler',
    reads: ['ca.backend'],
    check: (c) => (proxied(c) ? wrongHandler(c.ca.acme_proxy.challenge_handler) : undefined),
  },
  {
    path: 'ca.acme_proxy.challenge_handler_config',
    reads: HANDLER_READS,
    check(c) {
      const { challenge_handler: handler, challenge_handler_config: config } = c.ca.acme_proxy
      if (!proxied(c) || handler === null || wrongHandler(handler) !== undefined) return undefined
      const read = readChallengeHandler(handler, config)
      return typeof read === 'string' ? read : undefined
    },
  },
  {
    path: 'ca.acme_proxy.challenge_type',
    reads: HANDLER_READS,
    check(c) {
      const { challenge_handler: handler, challenge_type: type } = c.ca.acme_proxy
      const method = HANDLER_METHODS[handler ?? '']
      if (!proxied(c) || method === undefined || method === type) return undefined
      return `is ${type}, but the handler ${handler} answers ${method}`
    },
  },
  not(
    'ca.acme_proxy.eab_hmac_key',
    ['ca.backend', 'ca.acme_proxy.eab_kid'],
    (c) => proxied(c) && (c.ca.acme_proxy.eab_kid === null) !== (c.ca.acme_proxy.eab_hmac_key === null),
    'belongs together with ca.acme_proxy.eab_kid; set both or none',
  ),
  not(
    'ca.acme_proxy.eab_hmac_key',
    ['ca.backend'],
    (c) => proxied(c) && !isBase64url((c.ca.acme_proxy.eab_hmac_key ?? '').replace(/=+$/, '')),
    'is not base64url',
  ),
]

const ownKey = (c: Config) => usesBackend(c, 'internal') && c.ca.signer.socket === null
/** A separate signer has the token in its own configuration. */
const token = (c: Config) => usesBackend(c, 'hsm') && c.ca.signer.socket === null
const external = (c: Config) => usesBackend(c, 'external')
const usesFailover = ({ ca }: Config) =>
  ca.backend === FAILOVER || Object.values(ca.profiles).some(({ backend }) => backend === FAILOVER)
const BACKENDS_READ = ['ca.failover.backends', 'ca.profiles']
const TOKEN_READS = ['ca.backend', 'ca.signer.socket']
const OWN_KEY = 'ca.backend internal needs it, or ca.signer.socket in its place'

export const CA: readonly Rule[] = [
  required('ca.internal.root_cert_path', ownKey, OWN_KEY, ['ca.backend', 'ca.signer.socket']),
  required('ca.internal.root_key_path', ownKey, OWN_KEY, ['ca.backend', 'ca.signer.socket']),
  required(
    'ca.signer.secret_file',
    (c) => c.ca.signer.socket !== null,
    'ca.signer.socket needs the secret that the signer asks for',
    ['ca.signer.socket'],
  ),
  required('ca.acme_proxy.directory_url', proxied, 'ca.backend acme_proxy needs it', ['ca.backend']),
  required('ca.acme_proxy.email', proxied, 'ca.backend acme_proxy needs it', ['ca.backend']),
  required('ca.acme_proxy.challenge_handler', proxied, 'ca.backend acme_proxy needs it', ['ca.backend']),
  required('ca.external.sign_url', external, 'ca.backend external needs it', ['ca.backend']),
  not(
    'ca.external.client_key_path',
    ['ca.external.client_cert_path'],
    (c) => external(c) && (c.ca.external.client_cert_path === null) !== (c.ca.external.client_key_path === null),
    'stands beside client_cert_path: set both of them or none',
  ),
  {
    path: 'ca.failover.backends',
    reads: ['ca.backend', 'ca.profiles'],
    check(c) {
      const { backends } = c.ca.failover
      if (!usesFailover(c)) return undefined
      if (backends.length < 2) return 'needs at least two backends, the first of which is asked first'
      return new Set(backends).size < backends.length ? 'names a backend twice' : undefined
    },
  },
  {
    path: 'ca.backend',
    reads: ['ca.failover.backends', 'ca.profiles'],
    check: ({ ca }) =>
      usedBackends(ca).filter(isSigner).length > 1
        ? 'uses internal and hsm, but one signer has all keys: give chancery-signer both issuers, and use one of the two names here'
        : undefined,
  },
  {
    path: 'ca.backend',
    reads: BACKENDS_READ,
    check({ ca }) {
      for (const backend of usedModules(ca)) {
        const message = moduleReferenceOf(backend)
        if (typeof message === 'string') return { path: keyOfBackend(ca, backend), message }
      }
      return undefined
    },
  },
  {
    path: 'ca.extension_settings',
    reads: ['ca.backend', ...BACKENDS_READ],
    check({ ca }) {
      const modules = usedModules(ca)
      const unused = Object.keys(ca.extension_settings).find((key) => isModule(key) && !modules.includes(key))
      if (unused !== undefined) return `has settings of ${unused}, which is no backend in use`
      return modules
        .filter((backend) => typeof moduleReferenceOf(backend) !== 'string')
        .map((backend) => caModuleConfig(ca, backend))
        .find((read) => typeof read === 'string')
    },
  },
  not(
    'server.tls.self_issued_names',
    ['ca.backend', 'ca.failover.backends', 'ca.profiles'],
    ({ ca, server }) => server.tls.self_issued_names.length > 0 && !backendsOf(ca, 'default').some(isSigner),
    'needs the backend internal or hsm in the default profile, which signs this certificate',
  ),
  required('ca.hsm.pkcs11_library', token, 'ca.backend hsm needs it', TOKEN_READS),
  required(
    'ca.hsm.token_label',
    (c) => token(c) && c.ca.hsm.slot_id === null,
    'ca.backend hsm needs it, or slot_id in its place',
    [...TOKEN_READS, 'ca.hsm.slot_id'],
  ),
  required(
    'ca.hsm.key_label',
    (c) => token(c) && c.ca.hsm.key_id === null,
    'ca.backend hsm needs it, or key_id in its place',
    [...TOKEN_READS, 'ca.hsm.key_id'],
  ),
  required('ca.hsm.issuer_cert_path', token, 'ca.backend hsm needs it', TOKEN_READS),
  required('ca.hsm.pin', (c) => token(c) && c.ca.hsm.login_required, 'ca.hsm.login_required needs it', [
    ...TOKEN_READS,
    'ca.hsm.login_required',
  ]),
  atMost('ca.default_validity_days', 'ca.max_validity_days'),
  {
    path: 'ca.serial_source',
    reads: ['ca.internal.serial_source', 'ca.hsm.serial_source'],
    check(c, isSet) {
      const older = usesBackend(c, 'hsm') ? c.ca.hsm.serial_source : c.ca.internal.serial_source
      if (!isSet('ca.serial_source') || older === null || older === c.ca.serial_source) return undefined
      return `is ${c.ca.serial_source}, but the same setting below the backend says ${older}; keep one of the two`
    },
  },
  {
    path: 'ca.profiles',
    check(c) {
      const wrong = Object.entries(c.ca.profiles).find(([, profile]) =>
        profile.key_usages.some((usage) => usage === 'key_cert_sign' || usage === 'crl_sign'),
      )
      return (
        wrong &&
        `${wrong[0]} has key_cert_sign or crl_sign; these belong to CA certificates, which are not issued here, so leave them out`
      )
    },
  },
  {
    path: 'ca.profiles',
    reads: ['ca.max_validity_days'],
    check(c) {
      const wrong = Object.entries(c.ca.profiles).find(
        ([, profile]) => (profile.validity_days ?? 0) > (profile.max_validity_days ?? c.ca.max_validity_days),
      )
      return (
        wrong &&
        `${wrong[0]} has a validity_days above its max_validity_days or ca.max_validity_days; must be at most that`
      )
    },
  },
]
