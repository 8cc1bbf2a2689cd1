/** The inside of a lane (lane.ts): jobs come by the message, several at once; answers go back when they are there. */

import type { LaneStart, PostedAnswer, PostedJob } from './lane.ts'

type Tasks = Record<string, (job: object) => unknown>

/** Answers of one turn travel together; should the turn take longer than this, those that are there go ahead of it. */
const GATHERING_MS = 2

/** The Piscina task; it ends with its port, which is when the pool is done with the thread. */
export default async function serveLane({ port, taskFile }: LaneStart): Promise<void> {
  const tasks = (await import(taskFile)) as Tasks
  let answers: PostedAnswer[] = []
  let gatheringSince = 0

  function begin({ id, task, job }: PostedJob): void {
    try {
      const answer = tasks[task]?.(job)
      if (!(answer instanceof Promise)) settle({ id, answer })
      else
        answer.then(
          (found) => settle({ id, answer: found }),
          (error) => settle({ id, error }),
        )
    } catch (error) {
      settle({ id, error })
    }
  }

  function settle(answer: PostedAnswer): void {
    const now = performance.now()
    if (answers.push(answer) === 1) {
      gatheringSince = now
      setImmediate(post)
    } else if (now - gatheringSince > GATHERING_MS) post()
  }

  function post(): void {
    const ready = answers
    answers = []
    if (ready.length === 0) return
    try {
      port.postMessage(ready)
    } catch {
      // One cannot be cloned: a fault of its task, of which only its own job may hear.
      for (const answer of ready) postAlone(answer)
    }
  }

  function postAlone(answer: PostedAnswer): void {
    try {
      port.postMessage([answer])
    } catch (error) {
      const reason = new Error(`the answer cannot be handed over: ${(error as Error).message}`)
      port.postMessage([{ id: answer.id, error: reason } satisfies PostedAnswer])
    }
  }

  port.on('message', (jobs: PostedJob[]) => {
    for (const job of jobs) begin(job)
  })
  await new Promise<void>((resolve) => port.on('close', resolve))
}
