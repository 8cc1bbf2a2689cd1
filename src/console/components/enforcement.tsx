/** Says whether the service enforces allowed identifiers. Without enforcement they protect nothing. */

import { useApi } from '../api.ts'
import { Ready } from './basics.tsx'

const KEY = 'security.identifier_policy.enforce_account_allowlist'

export function Enforcement() {
  const loaded = useApi('getSettings', {})
  return (
    <Ready loaded={loaded}>
      {({ settings }) =>
        settings.find(({ key }) => key === KEY)?.value === true ? (
          <p class="quiet">Enforced: an account gets certificates for these only.</p>
        ) : (
          <p class="bar warn">
            Not enforced: security.identifier_policy.enforce_account_allowlist is off, so accounts may also request
            other names.
          </p>
        )
      }
    </Ready>
  )
}
