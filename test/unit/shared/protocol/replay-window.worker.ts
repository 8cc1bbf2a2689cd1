/** Redeems what it is told to, for the test with real threads. */

import { parentPort, workerData } from 'node:worker_threads'
import { openReplayWindow } from '../../../../src/shared/protocol/nonce.ts'

const { memory, counters, issue } = workerData as { memory: SharedArrayBuffer; counters: number[]; issue: number }
const window = openReplayWindow(memory)
const issued: number[] = []
for (let i = 0; i < issue; i++) issued.push(window.nextBlock())
parentPort?.postMessage({ issued, redeemed: counters.filter((counter) => window.redeem(counter)) })
