/** Handlers `callback_dns` and `callback_http`: one script publishes a response, another withdraws it. */

import type { ChallengeHandler, ChallengeResponse } from './handler.ts'
import { runScript } from './run-script.ts'

export interface ScriptSettings {
  placeScript: string
  removeScript: string
  timeoutMs: number
  concurrency: number
  passedVariables: readonly string[]
}

export interface DnsScriptSettings extends ScriptSettings {
  propagationMs: number
}

/** create: domain, record name, record value; delete: domain, record name. */
export function callbackDns({ propagationMs, ...settings }: DnsScriptSettings): ChallengeHandler {
  return scripts(settings, propagationMs, {
    place: ({ domain, recordName, recordValue }) => [domain, recordName, recordValue],
    remove: ({ domain, recordName }) => [domain, recordName],
  })
}

/** deploy: domain, token, key authorization; cleanup: domain, token. */
export function callbackHttp(settings: ScriptSettings): ChallengeHandler {
  return scripts(settings, 0, {
    place: ({ domain, token, keyAuthorization }) => [domain, token, keyAuthorization],
    remove: ({ domain, token }) => [domain, token],
  })
}

type Words = (response: ChallengeResponse) => readonly string[]

function scripts(
  { placeScript, removeScript, timeoutMs, concurrency, passedVariables }: ScriptSettings,
  propagationMs: number,
  words: { place: Words; remove: Words },
): ChallengeHandler {
  const limits = { timeoutMs, passedVariables }
  return {
    propagationMs,
    timeoutMs,
    concurrency,
    place: (response, signal) =>
      runScript({ file: placeScript, ...limits }, words.place(response), variablesOf(response), signal),
    remove: (response, signal) =>
      runScript({ file: removeScript, ...limits }, words.remove(response), variablesOf(response), signal),
    close: async () => undefined,
  }
}

/** A script that deletes one value of several under a name needs the value. */
function variablesOf({ domain, token, recordName, recordValue }: ChallengeResponse): Record<string, string> {
  return {
    CHANCERY_DOMAIN: domain,
    CHANCERY_TOKEN: token,
    CHANCERY_RECORD_NAME: recordName,
    CHANCERY_RECORD_VALUE: recordValue,
  }
}
