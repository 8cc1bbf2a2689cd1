/** `GET /settings`: the configuration in force. */

import * as z from 'zod/v4'
import type { Role } from '../../domain/administrator.ts'
import { isScoped } from '../../domain/permissions.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AdminQuestions } from '../admin-message.ts'

const Json = z.unknown()

const Setting = z
  .strictObject({
    key: z.string(),
    value: Json.meta({ description: 'A secret that is set is "(hidden)".' }),
    default: Json,
    source: z.enum(['file', 'variable', 'default']).nullable().meta({ description: 'Null when no file is known.' }),
    variable: z.string().nullable(),
    reload: z.enum(['live', 'restart']).meta({ description: 'Whether a SIGHUP applies a change, or only a restart.' }),
    secret: z.boolean(),
    description: z.string(),
    unit: z.string().nullable(),
  })
  .meta({ id: 'Setting' })

const Settings = z
  .strictObject({
    settings: z.array(Setting),
    file: z
      .strictObject({
        path: z.string(),
        errors: z.array(z.string()).meta({ description: 'Why the file is not usable now; a SIGHUP changes nothing.' }),
        changes: z
          .array(z.strictObject({ key: z.string(), by: z.enum(['SIGHUP', 'restart']), value: Json }))
          .meta({ description: 'Keys of the file that differ from what is in force, and what applies them.' }),
      })
      .nullable()
      .meta({ description: 'Null when the service runs without a file.' }),
  })
  .meta({ id: 'Settings' })

function settingsBody({ settings, file }: AdminQuestions['settings']['reply']): z.input<typeof Settings> {
  return {
    settings: settings.map(({ source, variable, unit, ...setting }) => ({
      ...setting,
      source: source ?? null,
      variable: variable ?? null,
      unit: unit ?? null,
    })),
    file: file ? { ...file, errors: [...file.errors], changes: [...file.changes] } : null,
  }
}

/** Where a client finds the service, and which names an account gets. A registrar sees these alone. */
const OF_CLIENTS =
  /^(?:server\.external_url|api\.(?:base|roots)_path|acme\.paths\.\w+|acme\.eab_(?:required|reusable)|tos\.url|security\.identifier_policy\.enforce_account_allowlist)$/

/** A registrar sees what its clients need. */
export const isSettingFor = ({ role }: { role: Role }, key: string): boolean => !isScoped(role) || OF_CLIENTS.test(key)

export const SETTINGS = endpointGroup('Operation', {
  getSettings: endpoint({
    route: 'GET /settings',
    permission: 'read_accounts',
    scope: 'settings',
    reply: { status: 200, schema: Settings },
    async handle({ author }, { ask }) {
      const { settings, file } = await ask('settings')
      const shown = settings.filter(({ key }) => isSettingFor(author, key))
      return { body: settingsBody({ settings: shown, file: isScoped(author.role) ? undefined : file }) }
    },
  }),
})
