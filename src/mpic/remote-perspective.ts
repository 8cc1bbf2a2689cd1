/**
 * Asks one remote perspective: a POST over HTTPS, bounded in time and size.
 *
 * BR 3.2.2.9 wants the channel authenticated both ways: we verify its certificate and send a token
 * or a client certificate. Proxies from the environment are ignored.
 */

import { Agent, request as httpsRequest } from 'node:https'
import { limitReceived } from '../shared/lib/received-limit.ts'
import { MPIC_PATH, type MpicRequest, MpicResponse } from './perspective-api.ts'

export interface PerspectiveSettings {
  name: string
  region: string | undefined
  /** The URL without `/mpic`. */
  url: string
  token: string | undefined
  /** In PEM; undefined means the system's certificates. */
  ca: string | undefined
  clientCertificate: { cert: string; key: string } | undefined
}

/** `refused`: the perspective did not see the proof. `failed`: it gave no usable answer. */
export interface Answer {
  result: 'corroborated' | 'refused' | 'failed'
  /** Evidence only, never sent to a client: it may quote the perspective. */
  reason?: string
}

export interface RemotePerspective {
  name: string
  region: string | undefined
  /** Never rejects; ends when `signal` aborts. */
  ask(request: MpicRequest, signal: AbortSignal): Promise<Answer>
  close(): void
}

/** Includes the headers. A coordinator sends one or two kilobytes for each of its perspectives. */
const MAX_ANSWER_BYTES = 262_144
const MAX_REASON = 256
/** Sockets stay open between checks: a handshake costs a round trip and a signature on both sides. */
const MAX_SOCKETS = 64

export function createRemotePerspective(settings: PerspectiveSettings): RemotePerspective {
  const { name, region, token, ca, clientCertificate } = settings
  const url = new URL(`${settings.url.replace(/\/$/, '')}${MPIC_PATH}`)
  const agent = new Agent({
    keepAlive: true,
    maxSockets: MAX_SOCKETS,
    minVersion: 'TLSv1.2',
    ...(ca !== undefined && { ca }),
    ...clientCertificate,
  })
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json',
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  }
  return {
    name,
    region,
    async ask(request, signal) {
      const answered = await post(url, agent, headers, JSON.stringify(request), signal)
      return 'body' in answered ? readAnswer(answered.body, request) : { result: 'failed', reason: answered.failure }
    },
    close: () => agent.destroy(),
  }
}

type Posted = { body: Buffer } | { failure: string }

function post(
  url: URL,
  agent: Agent,
  headers: Record<string, string>,
  body: string,
  signal: AbortSignal,
): Promise<Posted> {
  return new Promise((resolve) => {
    const fail = (failure: string) => resolve({ failure })
    const onError = (error: NodeJS.ErrnoException) =>
      fail(signal.aborted ? 'no answer in time' : (error.code ?? error.message))
    const length = { 'content-length': Buffer.byteLength(body) }
    const request = httpsRequest(url, { method: 'POST', agent, headers: { ...headers, ...length }, signal })
    request.on('error', onError)
    limitReceived(request, MAX_ANSWER_BYTES, () => {
      fail('the answer is too long')
      request.destroy()
    })
    request.on('response', (response) => {
      const chunks: Buffer[] = []
      response.on('error', onError)
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () =>
        response.statusCode === 200 ? resolve({ body: Buffer.concat(chunks) }) : fail(`status ${response.statusCode}`),
      )
    })
    request.end(body)
  })
}

/** Only a clear yes to this very request corroborates. */
function readAnswer(body: Buffer, request: MpicRequest): Answer {
  const parsed = MpicResponse.safeParse(jsonOf(body))
  if (!parsed.success) return { result: 'failed', reason: 'not an answer of the Open MPIC API' }
  const answer = parsed.data
  const isToThis =
    answer.check_type === request.check_type && sameTarget(answer.domain_or_ip_target, request.domain_or_ip_target)
  if (!isToThis) return { result: 'failed', reason: 'an answer to another question' }
  if (!answer.mpic_completed) return { result: 'failed', reason: errorsIn(answer) ?? 'the check was not completed' }
  if (!answer.is_valid) return { result: 'refused', reason: errorsIn(answer) ?? 'no reason given' }

  const passed = answer.perspectives.filter(
    ({ check_response: { check_passed, check_completed } }) => check_passed && check_completed,
  )
  // A quorum of 0 is the API's monitoring mode, in which every request passes.
  const { quorum_count: quorum } = answer.actual_orchestration_parameters
  if (quorum < 1 || passed.length < quorum)
    return { result: 'failed', reason: 'valid without perspectives that say so' }
  return { result: 'corroborated' }
}

function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}

const sameTarget = (one: string, other: string) => one.toLowerCase() === other.toLowerCase()

function errorsIn({ perspectives }: MpicResponse): string | undefined {
  const messages = perspectives.flatMap(({ perspective_code: code, check_response: { errors } }) =>
    (errors ?? []).map(({ error_type = '', error_message = '' }) => `${code}: ${error_type} ${error_message}`),
  )
  return messages.length > 0 ? messages.join('; ').slice(0, MAX_REASON) : undefined
}
