/** All commands that need the host. Their modules in `commands` are loaded when they run. */

import type { HostCommand } from '../on-host.ts'
import { ADMINISTRATION } from './administration.ts'
import { CERTIFICATE } from './certificate.ts'
import { DATABASE } from './database.ts'
import { MAIL } from './mail.ts'
import { SERVE } from './serve.ts'

export const HOST: readonly HostCommand[] = [...SERVE, ...DATABASE, ...MAIL, ...CERTIFICATE, ...ADMINISTRATION]
