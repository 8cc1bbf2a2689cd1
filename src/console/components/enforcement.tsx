/** Says whether the service enforces allowed identifiers. Without enforcement they protect nothing. */

import { useApi } from '../api.ts'
import { WORDS } from '../words.ts'
import { Ready } from './basics.tsx'

const KEY = 'security.identifier_policy.enforce_account_allowlist'

export function Enforcement() {
  const loaded = useApi('getSettings', {})
  return (
    <Ready loaded={loaded}>
      {({ settings }) =>
        settings.find(({ key }) => key === KEY)?.value === true ? (
          <p class="quiet">{WORDS.identifiers.enforced}</p>
        ) : (
          <p class="bar warn">{WORDS.identifiers.notEnforced}</p>
        )
      }
    </Ready>
  )
}
