/** Errors between several keys: a table of pure functions over the finished values. */

import { ACME_PROXY } from './rules/acme-proxy.ts'
import { CA } from './rules/ca.ts'
import { CHALLENGES } from './rules/challenges.ts'
import { CRL, HOOKS, OPERATIONS } from './rules/operations.ts'
import type { Rule } from './rules/rule.ts'
import { ACME, SERVER } from './rules/server.ts'
import { URLS } from './rules/urls.ts'

/** What is wrong is told in this order, where the file gives none. */
export const RULES: readonly Rule[] = [
  ...SERVER,
  ...ACME,
  ...CHALLENGES,
  ...CA,
  ...ACME_PROXY,
  ...CRL,
  ...OPERATIONS,
  ...HOOKS,
  ...URLS,
]
