/** Brings back that signing is stopped, and maintenance. */

import * as z from 'zod/v4'
import { queriesOf } from '../../store/slonik.ts'
import { createServerSettings, type ServerSwitch } from '../../store/switch-store.ts'
import { type Restore, restoredIf, restoring } from './restore.ts'

const on = (name: ServerSwitch): Restore =>
  restoring(z.object({ reason: z.string().optional() }), async (tx, { reason }, { by }) =>
    restoredIf(await createServerSettings(queriesOf(tx)).setSwitch(name, true, { by, reason })),
  )

export const SWITCH_RESTORES = { 'signing.stop': on('stopSigning'), 'maintenance.set': on('maintenance') }
