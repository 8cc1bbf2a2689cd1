/** Why a client did not get its certificate, what helps, and which command shows it: from a failure of its account. Pure. */

import { type Attempted, commandFor } from './failure-command.ts'

export interface Failure {
  kind: string
  data: Readonly<Record<string, unknown>>
}

export interface Explanation {
  title: string
  /** The answer to the client, or the finding of the validation. */
  detail: string
  /** Names that were concerned. */
  names: string[]
  advice: string
  /** A command of a shell that does what the service did; undefined where there is none, or the name is no name. */
  command: string | undefined
  orderId: string | undefined
  authorizationId: string | undefined
}

const TITLES: Readonly<Record<string, string>> = {
  'order.rejected': 'An order was refused',
  'order.csr_refused': 'A certification request was refused',
  'order.quota_exceeded': 'A quota is used up',
  'certificate.issuance_failed': 'A certificate could not be issued',
  'challenge.on_failure': 'A name could not be validated',
}

/** @param found what the evidence of the attempt tells of host and record */
export function explainFailure({ kind, data }: Failure, found: Pick<Attempted, 'port' | 'record'> = {}): Explanation {
  const names = namesOf(data)
  return {
    title: titleOfFailure(kind),
    detail: detailOf(data),
    names,
    advice: adviceFor(kind, data),
    command: commandFor({
      ...found,
      problem: problemOf(data),
      name: names[0] ?? '',
      challenge: textOf(data['challenge_type']),
      token: textOf(data['token']),
    }),
    orderId: textOf(data['order_id']),
    authorizationId: textOf(data['authorization_id']),
  }
}

export const titleOfFailure = (kind: string): string => TITLES[kind] ?? kind

const WRONG_ANSWERS = ['unauthorized', 'incorrectResponse']

/** `unauthorized` is about an account, or about a host or record with a wrong answer (RFC 8555 §8). */
function adviceFor(kind: string, data: Failure['data']): string {
  const problem = problemOf(data)
  const challenge = textOf(data['challenge_type']) ?? ''
  if (kind === 'challenge.on_failure' && WRONG_ANSWERS.includes(problem))
    return ADVICE_BY_CHALLENGE[challenge] ?? ADVICE_BY_KIND[kind] ?? ''
  if (kind === 'challenge.on_failure' && problem === 'dns' && challenge.startsWith('dns-')) return NO_ANSWER
  return ADVICE_BY_PROBLEM[problem] ?? ADVICE_BY_KIND[kind] ?? ''
}

const NO_RECORD =
  'The record is not there or has another value: the client did not write it, or a name server still serves an old one.'
const NO_ANSWER =
  'The TXT record was not found: the client did not write it, or a name server does not have it or does not answer; the reason says which.'
const ADVICE_BY_CHALLENGE: Readonly<Record<string, string>> = {
  'http-01': 'The host answered with something else: the client did not put the file there, or another server answers.',
  'dns-01': NO_RECORD,
  'dns-account-01': NO_RECORD,
  'dns-persist-01': 'The record is not there, or does not name this CA and this account.',
  'tls-alpn-01': 'The host answered without the certificate of the challenge: another server answers its port 443.',
}

const NOT_ALLOWED =
  'Correct the name in the client, or allow it: to the account, to its credential, or in security.identifier_policy.'

const ADVICE_BY_KIND: Readonly<Record<string, string>> = {
  'order.rejected': NOT_ALLOWED,
  'order.csr_refused': 'Change the request in the client, or the CSR profile of the account.',
  'order.quota_exceeded': 'Wait until the quota is free again, or raise it under quotas in the configuration.',
  'certificate.issuance_failed': 'Look at the signer and at the log of the service; then let the client try again.',
  'challenge.on_failure': 'Open the authorization: its evidence shows each request and its answer.',
}

const ADVICE_BY_PROBLEM: Readonly<Record<string, string>> = {
  dns: 'The name does not resolve as needed. Ask a name server that the service uses for the record.',
  connection:
    'The service could not connect to the host. Check its firewall, the port, and that something listens there.',
  tls: 'The host answered, but not with the certificate of the challenge. Check what serves its port 443.',
  incorrectResponse: 'The host or record answered with something else. Often another server or an old record answers.',
  caa: 'CAA records of the name permit another CA. Add this CA, or remove the records.',
  rejectedIdentifier: NOT_ALLOWED,
  invalidProfile: 'The client asks for a profile that its credential does not have, or that does not exist.',
  rateLimited: 'Wait for the time in the reason and have the client ask less often, or raise security.rate_limits.',
  malformed: 'The client sends what is no correct order: the reason names the member. Correct or update the client.',
  alreadyReplaced: 'The client orders the same renewal twice. It has to order without "replaces".',
  userActionRequired: 'The holder of the account has to agree to the terms of service with the client.',
  badCSR: 'Change the request in the client, or the CSR profile of the account.',
  unauthorized: 'The account may not do this. Look at its status, its credential and its allowed identifiers.',
}

/** The last part of an ACME error type (RFC 8555 §6.7). */
function problemOf(data: Failure['data']): string {
  const type = textOf(data['problem']) ?? textOf(memberOf(data['error'], 'type')) ?? ''
  return type.slice(type.lastIndexOf(':') + 1)
}

function detailOf(data: Failure['data']): string {
  const { error, quota, limit } = data
  if (quota !== undefined) return `The quota "${textOf(quota) ?? ''}" allows ${String(limit)}.`
  const details = subproblemsOf(error)
  if (details.length > 0) return details.slice(0, MOST_DETAILS).join('; ')
  return textOf(error) ?? textOf(memberOf(error, 'detail')) ?? ''
}

const MOST_DETAILS = 10

/** They say why, one for each name or violation (RFC 8555 §6.7.1). */
function subproblemsOf(error: unknown): string[] {
  const subproblems = memberOf(error, 'subproblems')
  return Array.isArray(subproblems) ? subproblems.flatMap((one) => textOf(memberOf(one, 'detail')) ?? []) : []
}

/** The refused names come before the requested ones. */
const LISTS_OF_NAMES = ['rejected_identifiers', 'attempted_identifiers', 'identifiers', 'domains'] as const

function namesOf(data: Failure['data']): string[] {
  const one = textOf(data['identifier_value'])
  if (one !== undefined) return [one]
  const lists = LISTS_OF_NAMES.map((member) => data[member])
  const listed = lists.find((list): list is unknown[] => Array.isArray(list) && list.length > 0) ?? []
  return listed.flatMap((name) => textOf(name) ?? textOf(memberOf(name, 'value')) ?? [])
}

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
const textOf = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined)
