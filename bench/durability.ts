import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { integrityOf, killRounds } from '../test/support/kill-rounds.ts'
import type { Figure } from './measure.ts'
import { benchKey, startService } from './processes.ts'

const rounds = 100
const writers = 64

/** Kills the service with SIGKILL a hundred times while clients write, counts lost and duplicate plants, and checks the file. */
export async function benchDurability(): Promise<readonly Figure[]> {
  const folder = mkdtempSync(join(tmpdir(), 'conservatory-bench-'))
  try {
    const { acknowledged, sentAgain, lost, doubled } = await killRounds({
      rounds,
      writers,
      key: benchKey,
      start: async () => {
        const service = await startService('Conservatory', { DATA_DIR: folder })
        return { url: `http://127.0.0.1:${service.port}`, kill: service.stop }
      },
    })
    const integrity = integrityOf(folder)
    const what = `${rounds} times kill -9 under ${writers} writers`
    return [
      {
        figure: `${what}: acknowledged plants that are lost`,
        target: '0',
        found: `${lost.length} of ${acknowledged}`,
        isReached: lost.length === 0,
      },
      {
        figure: `${what}: plants that are there twice, with those sent again`,
        target: '0',
        found: `${doubled.length} (${sentAgain} sent again)`,
        isReached: doubled.length === 0,
      },
      {
        figure: `${what}: integrity_check`,
        target: 'ok',
        found: String(integrity),
        isReached: integrity === 'ok',
      },
    ]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
