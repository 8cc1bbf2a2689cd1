/**
 * Which function belongs to which part of a certificate's cost: the rules of the profile's tables.
 *
 * A sample is a stack. From its innermost frame outwards the first frame that a rule knows decides, so that a Buffer that
 * the JWS parser makes counts for the parser. Functions of Node itself, which everybody calls, have rules that count only when
 * nobody else on the stack has one (`AMONG_NODE`). What no rule knows is "other", and is listed by name.
 */

import type { CallFrame } from './capture.ts'

export interface Rule {
  part: string | undefined
  /** Of the frame's file: a path below the compiled tree, `node:…`, or a package `<name>/…`; empty for native code. */
  file?: RegExp
  name?: RegExp
  /** Of the innermost function of the stack: which native call is being waited for. */
  leaf?: RegExp
}

export const OTHER = 'other'
export const GARBAGE = 'garbage collection'
const LOOP = 'event loop and native code without JavaScript'

const SOCKET_CALL = /^(writev|writeBuffer|write\w*String|shutdown|readStart)$/
const REPLY_CALL = /^(collect|cork|end|tryEnd|write|writeStatus|writeHeader|sendFile|send)$/

/** Tried in this order at each frame. A part that is undefined leaves the decision to the caller. */
const RULES: readonly Rule[] = [
  { part: GARBAGE, name: /^\(garbage collector\)$/ },
  { part: LOOP, name: /^\(program\)$/ },

  { part: 'verify: request', file: /^src\/shared\/protocol\/jws-algorithms/ },
  { part: 'verify: CSR', name: /^verifyCsrSignature$/ },
  { part: 'verify: new certificate', file: /^src\/ca\//, name: /^requireSignature$/ },
  { part: undefined, file: /^src\/shared\/pki\/signature/ },
  { part: 'sign', file: /^signer\/keys\// },
  { part: 'key import', file: /^node:internal\/crypto\/keys/ },
  { part: 'key import', file: /^src\/shared\/(protocol\/jwk|pki\/spki|lib\/keys)/ },

  { part: 'TLS and socket writes', file: /^src\/http\//, leaf: REPLY_CALL },
  { part: 'HTTP: requests and headers', file: /^src\/http\// },
  {
    part: 'nonces',
    file: /^src\/(shared\/protocol\/nonce|shared\/lib\/replay-window|services\/shared-nonces|store\/nonce|main\/nonces)/,
  },
  { part: 'JWS and JSON parsing', file: /^src\/shared\/(protocol\/jws|lib\/(json|base64url))/ },
  { part: 'replies: objects and JSON', file: /^src\/(acme\/(reply|resources)|shared\/protocol\/(urls|timestamp))/ },

  {
    part: 'PostgreSQL client: socket writes',
    file: /^(pg(-|\/)|src\/store\/(pipeline|statement-group|wire))/,
    leaf: SOCKET_CALL,
  },
  { part: 'PostgreSQL client', file: /^(pg(-|\/)|postgres-|slonik|src\/store\/(pipeline|statement-group|wire))/ },
  { part: 'statements and batches', file: /^src\/(store\/|shared\/lib\/batcher)/ },

  { part: 'signer: socket writes', file: /^(src\/ca|signer\/(connection|server|protocol))/, leaf: SOCKET_CALL },
  {
    part: 'signer: frames and queue',
    file: /^(src\/ca\/|signer\/(connection|server|protocol|sign-queue|signing|methods))/,
  },
  { part: 'signer: audit chain', file: /^signer\/(audit|counters)/ },
  { part: 'signer: policy', file: /^signer\// },
  { part: 'PKI: CSR, certificate, lint', file: /^src\/(shared\/pki\/|services\/issuance|domain\/csr)/ },

  {
    part: 'validation: sockets',
    file: /^workers\//,
    leaf: /^(connect|close|shutdown|write\w*|readStart|setNoDelay|send\w*)$/,
  },
  { part: 'validation: hand-over', file: /^(piscina|better-queue)/ },
  {
    part: 'validation: hand-over',
    file: /^(workers\/(pool|lane|shared-settings|task)|src\/(runtime\/|shared\/lib\/fair-queue))/,
  },
  { part: 'validation: queue and records', file: /^src\/(services\/validation|main\/validation|domain\/validation)/ },
  { part: 'validation: look-ups and fetches', file: /^workers\// },
  { part: 'validation: look-ups and fetches', file: /^(dns-packet|node:_http_client|node:dgram|node:dns)/ },

  { part: 'metrics', file: /^(prom-client|src\/ops)/ },
  { part: 'logging', file: /^(pino|sonic-boom|src\/main\/(logging|service-events))/ },
  {
    part: 'gate: accounts, limits, URLs',
    file: /^src\/acme\/endpoint|^src\/services\/(account|rate|instance-board)|^src\/shared\/lib\/lru/,
  },
  { part: 'protocol and services', file: /^src\// },
]

const AMONG_NODE: readonly Rule[] = [
  {
    part: 'sockets of Node: reads and life cycle',
    file: /^node:(net|_http|http|internal\/(stream|streams|js_stream))/,
  },
  { part: 'promises, timers, messages', file: /^node:/ },
  { part: 'promises, timers, messages', name: /^(runMicrotasks|postMessage)$/ },
]

/** @param stack innermost frame first */
export function partOf(stack: readonly CallFrame[]): string {
  const leaf = stack[0]?.functionName ?? ''
  const frames = stack.map(({ functionName, url }) => ({ name: functionName, file: placeOf(url) }))
  for (const rules of [RULES, AMONG_NODE]) {
    for (const frame of frames) {
      const rule = rules.find((one) => applies(one, frame, leaf))
      if (rule?.part !== undefined) return rule.part
    }
  }
  return OTHER
}

function applies(rule: Rule, frame: { name: string; file: string }, leaf: string): boolean {
  return (
    (rule.file === undefined || rule.file.test(frame.file)) &&
    (rule.name === undefined || rule.name.test(frame.name)) &&
    (rule.leaf === undefined || rule.leaf.test(leaf))
  )
}

/** The url of a frame without what differs between machines: `src/acme/reply.js`, `pg/lib/client.js`, `node:net`. */
export function placeOf(url: string): string {
  const dependency = url.lastIndexOf('node_modules/')
  if (dependency >= 0) return url.slice(dependency + 'node_modules/'.length)
  return url.replace(/^.*\/dist\/(?=(src|signer|workers)\/)/, '')
}
