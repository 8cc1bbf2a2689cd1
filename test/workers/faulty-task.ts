/** A task that fails in the ways a thread can fail; which one stands in the job's token. */

import { setTimeout as sleep } from 'node:timers/promises'
import { threadId } from 'node:worker_threads'
import type { Http01Job, ValidationVerdict } from '../../workers/job.ts'

let crowd = 0

export default async function faulty(job: Http01Job): Promise<ValidationVerdict> {
  switch (job.token) {
    case 'exit':
      return process.exit(3)
    case 'throw-later':
      setTimeout(() => {
        throw new Error('a stray callback')
      }, 10)
      await sleep(5000)
      break
    case 'reject':
      throw new TypeError('a fault of the task')
    case 'spin':
      for (;;);
    case 'slow':
      await sleep(200)
      break
    case 'slower':
      await sleep(3000)
      break
    case 'crowd': {
      const inside = ++crowd
      await sleep(200)
      crowd--
      return { ok: true, evidence: [{ step: 'crowd', threadId, inside }] }
    }
    case 'uncloneable':
      return { ok: true, evidence: [{ step: 'a function', call: () => 1 }] }
    case 'exit-later':
      setTimeout(() => process.exit(3), 50)
      break
    case 'environment':
      return { ok: true, evidence: [{ step: 'environment', names: Object.keys(process.env) }] }
  }
  return { ok: true, evidence: [] }
}
