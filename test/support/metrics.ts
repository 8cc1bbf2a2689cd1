/** The metrics of a service. */

import type { TestService } from './service.ts'

/** @param name without its prefix, with labels or without @param token of an administrator, where the metrics want one */
export async function metricOf(
  { baseUrl }: Pick<TestService, 'baseUrl'>,
  name: string,
  token?: string,
): Promise<number> {
  const headers = { ...(token !== undefined && { authorization: `Bearer ${token}` }) }
  const lines = (await (await fetch(`${baseUrl}/metrics`, { headers })).text()).split('\n')
  const line = lines.find((one) => one.startsWith(`service_${name} `) || one.startsWith(`service_${name}{`))
  return Number(line?.split(' ').at(-1) ?? 0)
}

// biome-ignore lint/suspicious/noExplicitAny: each test looks into other parts
export const healthOf = async ({ baseUrl }: Pick<TestService, 'baseUrl'>): Promise<any> =>
  (await fetch(`${baseUrl}/healthz`)).json()
