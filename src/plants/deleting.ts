import { existsSync } from 'node:fs'
import { type AccessStores, type Account, findAccount } from '../access/access.ts'
import { prepareFolder } from '../storage/data-folder.ts'
import { readAccountFile } from './account-file.ts'
import { discardPart, PlantsFile, safetyPath } from './exporting.ts'
import { InputFile } from './input-file.ts'
import { inBatches, Pace } from './pace.ts'
import type { PlantTransfers } from './transfers.ts'

/** The stores as far as deleting an account uses them. */
export interface DeletingStores extends AccessStores {
  readonly transfers: PlantTransfers
  deleteAccount(name: string): Promise<boolean>
}

/** Reports the progress of a deletion. */
export interface Deletion {
  /** The account is suspended: its keys are refused from now on. */
  onSuspended(): void
  /** The file of an interrupted run is missing. Some plants of this file may be deleted already. */
  onMissing(path: string): void
}

const keysPerBatch = 500

/**
 * Deletes an account with everything that it owns: suspends it, writes its plants into a file, and deletes the plants of the file
 * in batches. A plant is deleted only if a complete file has the plant with the same name and tag. Other plants are written into
 * another file. After an interruption, the next run continues.
 * @param folder the folder of the files
 * @returns the paths of the files with the account's plants; an account without plants has no file
 * @throws AccessError for an unknown account, and for an account with the last valid key of the scope `admin`
 */
export async function deleteWithPlants(
  { access, transfers, deleteAccount }: DeletingStores,
  name: string,
  folder: string,
  deletion: Deletion,
): Promise<readonly string[]> {
  const account = await findAccount(access, name)
  // The folder is prepared first, so that an error of the folder is reported before anything changes.
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
    const path = await writeFile(transfers, account, folder)
    if (path !== undefined) {
      paths.push(path)
      await removeKept(transfers, account.id, path, pace)
    }
    while ((await pace.take(keysPerBatch, () => transfers.removeKeys(account.id, keysPerBatch))) > 0);
    // A write that was admitted before the suspension may have added a plant meanwhile.
  } while (!(await deleteAccount(account.name)))
  return paths
}

/** Writes the plants of an account into a new file, and records the file. @returns the file's path; undefined without plants */
async function writeFile(transfers: PlantTransfers, account: Account, folder: string): Promise<string | undefined> {
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

/** Removes the plants of a file from the account, except plants that have changed. */
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
