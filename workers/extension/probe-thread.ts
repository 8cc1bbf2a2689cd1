/** Entry of the thread that loads validator modules once at start and describes them (probe.ts). */

import { parentPort, workerData } from 'node:worker_threads'
import { describeThrown, loadValidator } from './extension-contract.ts'
import type { ProbeData, ProbeReport } from './extension-probe.ts'

const { modules, settings } = workerData as ProbeData
const report = (message: ProbeReport) => parentPort?.postMessage(message)

for (const [index, module] of modules.entries()) {
  report({ type: 'loading', index })
  try {
    const { description } = await loadValidator(module, settings)
    report({ type: 'loaded', description })
  } catch (thrown) {
    report({ type: 'broken', index, reason: describeThrown(thrown) })
  }
}
report({ type: 'done' })
