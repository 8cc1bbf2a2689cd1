/** Which part of the work a stack belongs to: the nearest of its frames that a rule knows decides. */

import type { Frame } from './profile.ts'

export const CATEGORIES = {
  http: 'TLS, HTTP, sockets of clients',
  jws: 'JWS and accounts: parse, import of the key, verify',
  nonce: 'nonce',
  limits: 'limits and quotas',
  lookup: 'flow cache and account cache',
  csr: 'CSR: parse, check, verify',
  build: 'certificate: build and lint',
  signature: 'signature: RPC, and its verification',
  sign: 'signer: the signature itself',
  records: 'signer: records, audit chain, policy',
  statement: 'statements, client side',
  postgres: 'statements, PostgreSQL',
  messages: 'messages between threads',
  validation: 'validation',
  events: 'events: what consumers are told',
  rules: 'rules and use cases',
  render: 'replies: JSON, URLs, times',
  log: 'log',
  metric: 'metrics',
  overload: 'timers and overload control',
  collector: 'garbage collector, in the thread',
  native: 'event loop and native code without a frame',
  others: 'threads of V8 and libuv: collector, compiler, files',
  probe: 'the profile itself',
} as const
export type Category = keyof typeof CATEGORIES

/** The first that matches a frame's `file function` decides. Files that all parts use are not here: their caller decides. */
const RULES: readonly (readonly [RegExp, Category])[] = [
  [/\/probe\.cjs /, 'probe'],
  [/^ \(garbage collector\)/, 'collector'],
  [/^ \((program|root)\)/, 'native'],
  [/^node:internal\/timers /, 'overload'],
  [/^node:internal\/(process|async_hooks|stream|streams|net)|^node:net /, 'native'],
  [/^node_modules\/(pino|sonic-boom|on-exit-leak-free)|^src\/ops\/logging/, 'log'],
  [/^node_modules\/prom-client|^src\/ops\/|metrics\.ts /, 'metric'],
  [/^src\/shared\/protocol\/nonce|^src\/services\/stored-nonces|^src\/store\/nonce-store/, 'nonce'],
  [/^src\/services\/(rate-limiter|account-rules)|^src\/store\/(rate-limit|account-rules)-store/, 'limits'],
  [/^src\/domain\/rate-limit|^src\/overload\/abuse-budget/, 'limits'],
  [/^src\/overload\/|^src\/shared\/lib\/time-limit/, 'overload'],
  [/^src\/services\/(flow-cache|account-cache)|^src\/services\/shared-state|^src\/shared\/lib\/caching/, 'lookup'],
  [/^node_modules\/(pg|pg-\w+|postgres-\w+|slonik)\//, 'statement'],
  [/^src\/(store|services\/archive)\/|^src\/shared\/lib\/batcher/, 'statement'],
  [/^src\/runtime\/|^src\/main\/front\/through-supervisor|^workers\/worker-thread/, 'messages'],
  [/^signer\/keys\//, 'sign'],
  [/^signer\/(socket-server|protocol)/, 'signature'],
  [/^signer\//, 'records'],
  [/^src\/ca\//, 'signature'],
  [/^src\/shared\/pki\/csr|^src\/domain\/csr-check/, 'csr'],
  [/^src\/domain\/certificate-profile|^src\/shared\/pki\/(tbs-certificate|lint|der-writer|certificate)\.ts/, 'build'],
  [/^src\/services\/(issuance|serial-number)\.ts build|^src\/services\/serial-number/, 'build'],
  [/^src\/shared\/protocol\/(jws|jwk|external-account-binding)|^src\/acme\/gate/, 'jws'],
  [
    /^src\/acme\/\S+ (render|\w+Reply|shown|unattempted|attemptOf)|^src\/shared\/protocol\/(urls|timestamp|problem)/,
    'render',
  ],
  [/^src\/(http|front)\/|^node_modules\/uWebSockets/, 'http'],
  [
    /^src\/validation|^src\/mpic|^workers\/|^src\/services\/(validation|challenge|attempt)|^src\/domain\/validation/,
    'validation',
  ],
  [/^src\/events\/|service-events\.ts /, 'events'],
  [/^src\//, 'rules'],
]
/** Helpers of all parts. */
const SHARED =
  /^src\/shared\/lib\/(?!batcher|caching|time-limit)|^src\/shared\/pki\/(der|algorithms|extensions|name|oids|time|weak-key)\.ts|^src\/shared\/protocol\/identifier/

const known = new Map<string, Category | undefined>()

function categoryOfFrame({ file, name }: Frame): Category | undefined {
  const key = `${file} ${name}`
  if (!known.has(key)) known.set(key, SHARED.test(key) ? undefined : RULES.find(([pattern]) => pattern.test(key))?.[1])
  return known.get(key)
}

/** What Node.js does by itself counts for it only where no frame of ours has asked for it. */
export function categoryOf(frames: readonly Frame[]): Category {
  const all = frames.map(categoryOfFrame)
  return (
    all.find((one) => one !== undefined && one !== 'native' && one !== 'overload') ?? all.find((one) => one) ?? 'native'
  )
}

/** How often a flow has each request. Both reads of the authorization have the same endpoint and the same work. */
export const REQUESTS = {
  'new-order': 1,
  authorization: 2,
  challenge: 1,
  finalize: 1,
  order: 1,
  certificate: 1,
} as const
export type Request = keyof typeof REQUESTS

/** By the endpoint, else by what only one endpoint uses: a continuation after an await has no endpoint below it. */
const BY_ENDPOINT: readonly (readonly [RegExp, Request])[] = [
  [/^src\/acme\/orders\.ts newOrder/, 'new-order'],
  [/^src\/acme\/orders\.ts order$/, 'order'],
  [/^src\/acme\/orders\.ts finalize/, 'finalize'],
  [/^src\/acme\/orders\.ts certificate/, 'certificate'],
  [/^src\/acme\/authorizations\.ts authorization/, 'authorization'],
  [/^src\/acme\/authorizations\.ts challenge/, 'challenge'],
]
const BY_PART: readonly (readonly [RegExp, Request])[] = [
  [/^src\/services\/(finalization|issuance|late-record|serial-number|caa-freshness)|^src\/ca\/|^signer\//, 'finalize'],
  [/^src\/store\/issuance|^src\/domain\/(csr|certificate)-|^src\/shared\/pki\/(csr|lint)/, 'finalize'],
  [/^src\/services\/(challenge|validation|attempt)|^src\/validation|^workers\/|^src\/store\/challenge/, 'challenge'],
  [/^src\/services\/ordering|^src\/store\/order-create|^src\/domain\/order-request/, 'new-order'],
  [/^src\/services\/chain-download/, 'certificate'],
]

/** @returns undefined when no frame tells */
export function requestOf(frames: readonly Frame[]): Request | undefined {
  for (const [rules, keyOf] of [
    [BY_ENDPOINT, ({ file, owner }: Frame) => `${file} ${owner}`],
    [BY_PART, ({ file }: Frame) => file],
  ] as const)
    for (const frame of frames) {
      const rule = rules.find(([pattern]) => pattern.test(keyOf(frame)))
      if (rule) return rule[1]
    }
  return undefined
}
