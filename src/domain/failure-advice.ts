/** Why a client did not get its certificate, what helps, and which command shows it: from a failure of its account. Pure. */

import type { EventData, FailureKind } from './event.ts'

/** A failure as a reply has it. An earlier or a later release may have written it. */
interface Failure {
  kind: string
  data: object
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

/** An explanation needs these of the payload. */
interface Facts {
  detail: string
  names: readonly string[]
  /** An ACME error type (RFC 8555 §6.7), or the last part of one. */
  problem?: string | undefined
  challenge?: string
  token?: string
  orderId?: string
  authorizationId?: string
}

interface Explained<K extends FailureKind> {
  title: string
  /** It helps where nothing better is known of the problem. */
  advice: string
  read(data: EventData<K>): Facts
}

const NOT_ALLOWED =
  'Correct the name in the client, or allow it: to the account, to its credential, or in security.identifier_policy.'

const FAILURES: { readonly [K in FailureKind]: Explained<K> } = {
  'order.rejected': {
    title: 'An order was refused',
    advice: NOT_ALLOWED,
    read: ({ error, rejected_identifiers: rejected, attempted_identifiers: attempted }) => ({
      ...toldIn(error),
      names: namesOf(rejected.length > 0 ? rejected : attempted),
    }),
  },
  'order.csr_refused': {
    title: 'A certification request was refused',
    advice: 'Change the request in the client, or the CSR profile of the account.',
    read: ({ error, identifiers, order_id: orderId }) => ({ ...toldIn(error), names: namesOf(identifiers), orderId }),
  },
  'order.quota_exceeded': {
    title: 'A quota is used up',
    advice: 'Wait until the quota is free again, or raise it under quotas in the configuration.',
    read: ({ quota, limit, attempted_identifiers: attempted }) => ({
      detail: `The quota "${quota}" allows ${limit}.`,
      names: namesOf(attempted),
    }),
  },
  'certificate.issuance_failed': {
    title: 'A certificate could not be issued',
    advice: 'Look at the signer and at the log of the service; then let the client try again.',
    read: ({ error, identifiers, order_id: orderId }) => ({ ...toldIn(error), names: namesOf(identifiers), orderId }),
  },
  'challenge.on_failure': {
    title: 'A name could not be validated',
    advice: 'Open the authorization: its evidence shows each request and its answer.',
    read: ({ error, problem, identifier_value, challenge_type, token, authorization_id }) => ({
      detail: error,
      problem,
      names: [identifier_value],
      challenge: challenge_type,
      token,
      authorizationId: authorization_id,
    }),
  },
}

type Problem = NonNullable<EventData<'certificate.issuance_failed'>['error']>

const MOST_DETAILS = 10

/** Subproblems say why, one for each name or violation (RFC 8555 §6.7.1). */
function toldIn(error: Problem | null): Pick<Facts, 'detail' | 'problem'> {
  const details = (error?.subproblems ?? []).flatMap(({ detail }) => detail ?? [])
  return { detail: details.slice(0, MOST_DETAILS).join('; ') || (error?.detail ?? ''), problem: error?.type }
}

const namesOf = (identifiers: readonly { value: string }[] = []) => identifiers.map(({ value }) => value)

/** @param found what the evidence of the attempt tells of host and record */
export function explainFailure(failure: Failure, found: Pick<Attempted, 'port' | 'record'> = {}): Explanation {
  const { kind } = failure
  const { detail, names, problem: type = '', challenge, token, orderId, authorizationId } = factsOf(failure)
  const problem = type.slice(type.lastIndexOf(':') + 1)
  return {
    title: titleOfFailure(kind),
    detail,
    names: [...names],
    advice: adviceFor(kind, problem, challenge),
    command: commandFor({ ...found, problem, name: names[0] ?? '', challenge, token }),
    orderId,
    authorizationId,
  }
}

const explained = (kind: string): Explained<never> | undefined =>
  Object.hasOwn(FAILURES, kind) ? FAILURES[kind as FailureKind] : undefined

/** A payload that is not as its kind has it explains nothing, and is shown all the same. */
function factsOf({ kind, data }: Failure): Facts {
  try {
    return explained(kind)?.read(data as never) ?? NOTHING_TOLD
  } catch {
    return NOTHING_TOLD
  }
}

const NOTHING_TOLD: Facts = { detail: '', names: [] }

export const titleOfFailure = (kind: string): string => explained(kind)?.title ?? kind

const WRONG_ANSWERS = ['unauthorized', 'incorrectResponse']

/** `unauthorized` is about an account, or about a host or record with a wrong answer (RFC 8555 §8). */
function adviceFor(kind: string, problem: string, challenge = ''): string {
  const otherwise = explained(kind)?.advice ?? ''
  if (kind === 'challenge.on_failure' && WRONG_ANSWERS.includes(problem))
    return ADVICE_BY_CHALLENGE[challenge] ?? otherwise
  if (kind === 'challenge.on_failure' && problem === 'dns' && challenge.startsWith('dns-')) return NO_ANSWER
  return ADVICE_BY_PROBLEM[problem] ?? otherwise
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

/** The command that repeats what a failed validation asked, for a shell. */
interface Attempted {
  /** The last part of an ACME error type (RFC 8555 §6.7). */
  problem: string
  name: string
  challenge: string | undefined
  token: string | undefined
  /** The port to which the service connected. */
  port?: number | undefined
  /** The name of the DNS record that was looked up. */
  record?: string | undefined
}

/** A refused order may have any text for a name: only these reach a command, unquoted and never as an option. */
const NAME = /^[a-z0-9_](?:[a-z0-9._-]*[a-z0-9])?$/
const ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7})$/
/** Base64url (RFC 8555 §8.3). */
const TOKEN = /^[A-Za-z0-9_-]{1,255}$/

/** @returns undefined where no command shows it */
export function commandFor({ name: asked, ...attempted }: Attempted): string | undefined {
  const name = asked.toLowerCase().replace(/^\*\./, '')
  const isAddress = ADDRESS.test(name)
  if (!isAddress && (!NAME.test(name) || name.length > 253)) return undefined
  if (attempted.problem === 'caa') return isAddress ? undefined : `dig CAA ${name}`
  if (attempted.problem === 'dns' && !isRecord(attempted.challenge)) return `dig ${name} A ${name} AAAA`
  return COMMANDS[attempted.challenge ?? '']?.(name, attempted)
}

const isRecord = (challenge: string | undefined) => challenge?.startsWith('dns-') === true

const COMMANDS: Readonly<Record<string, (name: string, attempted: Omit<Attempted, 'name'>) => string | undefined>> = {
  'http-01': (name, { token, port = 80 }) => {
    const path = token !== undefined && TOKEN.test(token) ? token : 'TOKEN'
    return `curl -v http://${hostOf(name)}${port === 80 ? '' : `:${port}`}/.well-known/acme-challenge/${path}`
  },
  'dns-01': (name, { record }) => digTxt(record, `_acme-challenge.${name}`),
  // The label before it is a hash of the account's URL, which only the evidence has.
  'dns-account-01': (_name, { record }) => digTxt(record),
  'dns-persist-01': (name, { record }) => digTxt(record, `_validation-persist.${name}`),
  'tls-alpn-01': (name, { port = 443 }) =>
    // An address is asked for by its reverse name (RFC 8738 §6).
    ADDRESS.test(name)
      ? undefined
      : `openssl s_client -alpn acme-tls/1 -servername ${name} -connect ${name}:${port} </dev/null`,
}

const hostOf = (name: string) => (name.includes(':') ? `[${name}]` : name)

function digTxt(record: string | undefined, usual?: string): string | undefined {
  const name = record !== undefined && NAME.test(record) ? record : usual
  return name === undefined ? undefined : `dig TXT ${name}`
}
