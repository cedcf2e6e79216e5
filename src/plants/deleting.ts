import { existsSync } from 'node:fs'
import { type AccessStores, type Account, findAccount } from '../access/access.ts'
import { prepareFolder } from '../storage/data-folder.ts'
import { readAccountFile } from './account-file.ts'
import { InputFile } from './input-file.ts'
import { inBatches, Pace } from './pace.ts'
import { discardPart, PlantsFile, safetyPath } from './safety-file.ts'
import type { PlantTransfers } from './transfers.ts'

/** The stores as far as deleting an account uses them. */
export interface DeletingStores extends AccessStores {
  readonly transfers: PlantTransfers
  deleteAccount(name: string): Promise<boolean>
}

/** What deleting an account tells of what it does. */
export interface Deletion {
  /** The account's keys are refused from now on. */
  onSuspended(): void
  /** A file of a run that was cut off is not there any more: plants that are deleted already were in it. */
  onMissing(path: string): void
}

/** Idempotency keys that are removed at once. */
const keysAtOnce = 500

/**
 * Deletes an account with all that it has: suspends it, writes its plants into a file, and deletes in batches what is in the
 * file. A plant is deleted only where a complete file has it as it is; whatever else there is goes into another one. Cut off
 * at any moment, the same goes on where it was.
 * @param folder where the file is to be
 * @returns the paths of the files with its plants; none where it had none
 * @throws AccessError for an unknown account, and one with the last working key of the scope `admin`
 */
export async function deleteWithPlants(
  { access, transfers, deleteAccount }: DeletingStores,
  name: string,
  folder: string,
  deletion: Deletion,
): Promise<readonly string[]> {
  const account = await findAccount(access, name)
  // Whatever keeps the file from being written is better told before anything changes.
  prepareFolder(folder)
  if (account.suspended === null) await access.suspendAccount(account.name)
  deletion.onSuspended()
  const pace = new Pace(transfers)
  const paths: string[] = []
  for (const { path, isComplete } of await transfers.deletionFiles(account.id)) {
    if (isComplete) {
      paths.push(path)
      if (existsSync(path)) await removeKept(transfers, account.id, path, pace)
      else deletion.onMissing(path)
    } else {
      discardPart(path)
      await transfers.forgetDeletionFile(account.id, path)
    }
  }
  do {
    const path = await keep(transfers, account, folder)
    if (path !== undefined) {
      paths.push(path)
      await removeKept(transfers, account.id, path, pace)
    }
    while ((await pace.take(keysAtOnce, () => transfers.removeKeys(account.id, keysAtOnce))) > 0);
    // A write that was let in before the account was suspended may have come meanwhile.
  } while (!(await deleteAccount(account.name)))
  return paths
}

/** Writes the plants of an account into a new file, and notes it. @returns its path; undefined where there are no plants */
async function keep(transfers: PlantTransfers, account: Account, folder: string): Promise<string | undefined> {
  const path = safetyPath(folder, account.name)
  const file = new PlantsFile(path, account.name)
  await transfers.saveDeletionFile(account.id, { path, isComplete: false })
  try {
    await transfers.copyPlants(account.id, file)
  } catch (error) {
    file.discard()
    throw error
  }
  if (existsSync(path)) {
    await transfers.saveDeletionFile(account.id, { path, isComplete: true })
    return path
  }
  await transfers.forgetDeletionFile(account.id, path)
  return undefined
}

/** Removes the plants of a file from the account, each where it is as the file has it. */
async function removeKept(transfers: PlantTransfers, account: number, path: string, pace: Pace): Promise<void> {
  const file = await InputFile.open(path, '')
  try {
    for await (const plants of inBatches(readAccountFile(file.bytes()), pace)) {
      await pace.take(plants.length, () => transfers.removePlants(account, plants))
    }
  } finally {
    await file.close()
  }
}
