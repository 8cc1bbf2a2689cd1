/** Whether the names that may be ordered may be signed: by the policy of the signer, and by the issuers' certificates. */

import { configuredConstraints } from '../../../signer/subtrees.ts'
import type { CaIssuer } from '../../ca/backend.ts'
import type { Config } from '../../config/schema.ts'
import { isIpAddress } from '../../shared/lib/host.ts'
import { checkNameConstraints, type NameConstraints } from '../../shared/pki/name-constraints.ts'
import type { Check } from '../check.ts'
import type { Sources } from '../sources.ts'
import { failure, orOk, type Verdict, warning } from '../verdict.ts'
import { NARROW, withSigner } from './signer-shared.ts'

export const SIGNER_NAMES: readonly Check[] = [
  {
    id: 'signer.names',
    title: 'Every name that may be ordered may be signed',
    look: (sources) => withSigner(sources, ({ issuers }) => judgeNames(sources.config, limitsOf(sources, issuers))),
  },
  {
    id: 'signer.own-names',
    title: 'The names of the service’s own certificate may be signed',
    look(sources) {
      const { self_issued_names: names } = sources.config.server.tls
      if (names.length === 0) return undefined
      return withSigner(sources, ({ issuers }) => {
        const limits = limitsOf(sources, issuers)
        return orOk(
          names.map((name) => {
            const refusal = refusalOfAll(name, limits)
            return (
              refusal !== undefined &&
              failure(`server.tls.self_issued_names has ${name}, which no issuer signs: ${refusal}`, NARROW)
            )
          }),
          names.join(', '),
        )
      })
    },
  },
]

/** The names that each issuer certifies: its certificates limit them, and so does the signer's policy where it is known. */
function limitsOf(sources: Sources, issuers: readonly CaIssuer[]): (readonly NameConstraints[])[] {
  const { socket } = sources.config.ca.signer
  const known = socket === null || sources.signerConfigFile === undefined ? [] : sources.signerConfig().issuers
  return issuers.map(({ id, constraints }) => {
    const policy = known.find((issuer) => issuer.id === id)?.policy
    return policy ? [...constraints, configuredConstraints(policy)] : constraints
  })
}

/** @returns why the first issuer does not sign the name, where none does */
function refusalOfAll(name: string, limits: readonly (readonly NameConstraints[])[]): string | undefined {
  const kind = isIpAddress(name) ? ('iPAddress' as const) : ('dNSName' as const)
  const refusals = limits.map((one) =>
    checkNameConstraints({ subject: [], subjectAltNames: [{ kind, value: name }] }, one),
  )
  return refusals.includes(undefined) ? undefined : refusals[0]
}

function judgeNames({ security }: Config, limits: readonly (readonly NameConstraints[])[]): readonly Verdict[] {
  const key = 'security.identifier_policy.allowed_domains'
  const { allowed_domains: allowed, allow_ip } = security.identifier_policy
  const isLimited = limits.some((one) => one.some(({ permitted }) => permitted.dns !== undefined))
  if (allowed.length === 0 && isLimited && limits.length > 0)
    return [
      warning(
        `every name may be ordered, and the signer signs only some: such orders fail at the end, after their validation`,
        `list the same names in ${key} as the policy of the signer and the name constraints of the issuer permit`,
      ),
    ]
  const names = allowed.map((pattern) => pattern.replace(/^\*\./, 'any.'))
  const refused = names.map((name) => {
    const refusal = refusalOfAll(name, limits)
    return (
      refusal !== undefined &&
      failure(
        `${key} has ${name.replace(/^any\./, '*.')}, and no issuer signs it: ${refusal}`,
        `take it out, or permit it in policy.permitted of the signer; where the issuer's certificate has name constraints, only a new issuer can`,
      )
    )
  })
  const isIpRefused =
    allow_ip && limits.length > 0 && limits.every((one) => one.some(({ permitted }) => permitted.ip?.length === 0))
  const addresses =
    isIpRefused &&
    failure(
      'addresses may be ordered (allow_ip), and no issuer signs any',
      'set security.identifier_policy.allow_ip: false, or permit networks',
    )
  return orOk([...refused, addresses], allowed.length === 0 ? 'nothing limits them' : `${allowed.length} patterns`)
}
