/** The supervisor's answers to the admin thread: how this instance is, and its configuration. */

import type { CaBackend } from '../ca/backend.ts'
import { formatErrors, type LoadedConfig } from '../config/load.ts'
import { planReload } from '../config/reload.ts'
import { shownSettings, shownValue } from '../config/shown.ts'
import type { InstanceState } from '../domain/instance-state.ts'
import { spawn } from '../runtime/actor.ts'
import { sharedWork } from '../shared/lib/shared-work.ts'
import type { AdminQuestions, ShownConfig } from './messages.ts'
import type { StartContext } from './start-context.ts'

const MOST_WAITING = 128
const RESTART = { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 100, windowMs: 60_000 }
/** Exceeds the time of all probes together. */
const HEALTH_DEADLINE_MS = 4_000
/** Reading the file takes this thread some 20 ms. */
const SETTINGS = { intervalMs: 250, mostWaiting: MOST_WAITING }

type Context = Pick<StartContext, 'log' | 'now' | 'reread'>

export function spawnAdminQuestions(context: Context, ca: Pick<CaBackend, 'issuers'>) {
  const settings = sharedWork(() => readSettings(context), SETTINGS)
  return spawn<AdminQuestions>({
    name: 'admin questions',
    mailboxLimit: MOST_WAITING,
    concurrency: MOST_WAITING,
    restart: RESTART,
    onFailure: ({ error }) => context.log.error({ err: error }, 'questions of the admin thread failed'),
    start: () => ({ instance: () => readInstance(context, ca), settings }),
  })
}

async function readInstance({ now: { supervisor } }: Context, ca: Pick<CaBackend, 'issuers'>): Promise<InstanceState> {
  if (!supervisor) throw new Error('the service is starting')
  const { checks, pool } = await supervisor.ask('health', undefined, HEALTH_DEADLINE_MS)
  const { database, ca_backend, dns_resolver } = checks
  const { status, reason, tokens = [] } = ca_backend
  return {
    database: database === 'pool_exhausted' ? database : database.status,
    pool,
    caBackend: { status, reason, tokens },
    dnsResolver: dns_resolver?.status,
    issuers: ca.issuers().map(({ id, certificate, notAfter }) => ({ id, certificate, notAfter })),
  }
}

async function readSettings({ now: { config }, reread }: Context): Promise<ShownConfig> {
  const loaded = await reread?.()
  const settings = shownSettings(config, loaded?.ok ? loaded.sources : undefined)
  return { settings, file: loaded && fileOf(config, loaded) }
}

function fileOf(config: StartContext['config'], loaded: LoadedConfig): NonNullable<ShownConfig['file']> {
  if (!loaded.ok) return { path: '', errors: formatErrors(loaded.errors).split('\n'), changes: [] }
  const { live, restart } = planReload(config, loaded.config)
  const change = (by: 'SIGHUP' | 'restart') => (key: string) => ({ key, by, value: shownValue(loaded.config, key) })
  return { path: loaded.path, errors: [], changes: [...live.map(change('SIGHUP')), ...restart.map(change('restart'))] }
}
