/** Why a sign-in by OpenID Connect failed, for the log: claim, value and what was expected, never a token or a secret. */

import { shown } from '../../domain/oidc-claims.ts'

/** What errors of openid-client, or their causes, have in addition to a message. */
type Detail = Readonly<Record<string, unknown>>

/** @param secrets that a provider may send back in its own words, and that stay out of the reason */
export function describeFailure(error: unknown, secrets: readonly string[]): string {
  let innermost = error
  // The message of a SyntaxError has a part of the text, which can be of a token.
  while (innermost instanceof Error && innermost.cause instanceof Error && !(innermost.cause instanceof SyntaxError))
    innermost = innermost.cause
  if (!(innermost instanceof Error)) return String(innermost)
  const { message, code, cause } = innermost as Error & Detail
  const details = detailsOf(innermost as unknown as Detail)
  if (details.length === 0 && typeof cause === 'object' && cause !== null) details.push(...detailsOf(cause as Detail))
  const reason = [message || code, ...details].join('; ')
  return secrets.reduce((text, secret) => (secret === '' ? text : text.replaceAll(secret, '(secret)')), reason)
}

function detailsOf({ error, error_description, status, response, url, ...detail }: Detail): string[] {
  const { claim, claims, attribute = claim, body = claims, header = detail, parameters, now, tolerance } = detail
  const expected = detail['expected'] === undefined ? '' : `, expected ${shown(detail['expected'])}`
  const value = (body as Detail | undefined)?.[String(attribute)]
  const { alg, kid } = header as Detail
  const said = [error, error_description].filter((text) => typeof text === 'string').map(shown)
  if (attribute !== undefined) said.push(`${attribute} is ${shown(value)}${expected}`)
  if (now !== undefined)
    said.push(
      `it is ${now} here, ${Math.abs(Number(now) - Number(value))} seconds apart, and ${tolerance} are tolerated`,
    )
  if (alg !== undefined) said.push(`alg is ${shown(alg)}, kid is ${shown(kid)}${expected}`)
  if (parameters instanceof URLSearchParams && expected) said.push(`iss is ${shown(parameters.get('iss'))}${expected}`)
  if (status !== undefined) said.push(`HTTP status ${status} of ${(response as Response | undefined)?.url ?? url}`)
  if (error === 'invalid_client' || status === 401)
    said.push(
      'where the token endpoint refused it, compare admin_api.oidc.client_secret and token_endpoint_auth_method',
    )
  return said
}
