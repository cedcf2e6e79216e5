import { howToInstall } from '../configuration/adapters.ts'
import { networkCode } from '../upstream/errors.ts'
import { type LanguageModel, toLanguageModel } from './language-model.ts'

/** Options of a provider package's factory. Every package takes the first four options. A package may have further options. */
export interface ProviderOptions {
  readonly apiKey?: string
  readonly baseURL?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly fetch: unknown
  readonly [name: string]: unknown
}

/** A function of a provider package that makes a provider, such as `createAnthropic`. */
export type ProviderFactory = (options: ProviderOptions) => unknown

/** Loads a package. Tests replace this function. */
export type ImportPackage = (name: string) => Promise<unknown>

/** An error whose message tells the operator in one or two sentences why a provider cannot be used. */
export class ProviderError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ProviderError'
  }
}

const importPackage: ImportPackage = (name) => import(name)

/**
 * Loads an AI SDK provider package.
 * @param adapter the package's name
 * @returns the package's functions that make a provider, the most likely function first
 * @throws ProviderError for a package that is not installed, or has no such function
 */
export async function loadProvider(
  adapter: string,
  load: ImportPackage = importPackage,
): Promise<readonly ProviderFactory[]> {
  const module = await load(adapter).catch((error: unknown) => {
    throw new ProviderError(whyNotLoaded(adapter, error))
  })
  const factories = typeof module === 'object' && module !== null ? factoriesOf(module, adapter) : []
  if (factories.length === 0) {
    throw new ProviderError(
      `The package ${JSON.stringify(adapter)} is not an AI SDK provider: it exports no function named create….`,
    )
  }
  return factories
}

/**
 * Makes a provider's model with the first function whose provider has language models.
 * @throws ProviderError whose message repeats no option
 */
export function openModel(
  adapter: string,
  factories: readonly ProviderFactory[],
  options: ProviderOptions,
  modelId: string,
): LanguageModel {
  const name = JSON.stringify(adapter)
  let failure: ProviderError | undefined
  for (const factory of factories) {
    try {
      const model = modelOf(factory(options), modelId)
      if (model === undefined) continue
      const understood = toLanguageModel(model)
      if (understood) return understood
      failure ??= new ProviderError(
        `The package ${name} speaks ${versionOf(model)} of the AI SDK's language model interface; v4 and v3 are understood. Install a version of the package that speaks v4 or v3.`,
      )
    } catch {
      failure ??= new ProviderError(`The package ${name} does not accept its settings. Check its "options".`)
    }
  }
  throw failure ?? new ProviderError(`The package ${name} has no language models.`)
}

function whyNotLoaded(adapter: string, error: unknown): string {
  if (networkCode(error) !== 'ERR_MODULE_NOT_FOUND') return `The package ${JSON.stringify(adapter)} fails to load.`
  // Node's message names the missing package, which may be a dependency of this package.
  const message = error instanceof Error ? error.message : ''
  const missing = /Cannot find package '([^']+)'/.exec(message)?.[1] ?? adapter
  const needs = missing === adapter ? '' : ` It is needed by ${JSON.stringify(adapter)}.`
  return `The package ${JSON.stringify(missing)} ${howToInstall(missing)}.${needs}`
}

/**
 * The exported functions named `create…`. A package can have several such functions, for language models and for other things,
 * and the order of a module's exports has no meaning. So the functions whose name after `create` is a part of the package's name
 * come first, and of these the function with the longest name.
 */
function factoriesOf(module: object, adapter: string): readonly ProviderFactory[] {
  const likeness = (name: string) => {
    const what = letters(name.slice('create'.length))
    return letters(adapter).includes(what) ? what.length : 0
  }
  return Object.entries(module)
    .filter(([name]) => /^create[A-Z]/.test(name))
    .sort(([one], [other]) => likeness(other) - likeness(one))
    .flatMap(([, value]) => (isFactory(value) ? [value] : []))
}

function letters(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '')
}

function isFactory(value: unknown): value is ProviderFactory {
  return typeof value === 'function'
}

/** Gets a model by `languageModel(id)`, which every provider should have, or by calling the provider itself. */
function modelOf(provider: unknown, modelId: string): unknown {
  if ((typeof provider !== 'object' && typeof provider !== 'function') || provider === null) return undefined
  if ('languageModel' in provider && typeof provider.languageModel === 'function') {
    return provider.languageModel(modelId)
  }
  return typeof provider === 'function' ? provider(modelId) : undefined
}

function versionOf(model: unknown): string {
  if (typeof model !== 'object' || model === null || !('specificationVersion' in model)) return 'no version'
  return /^v\d+$/.exec(String(model.specificationVersion))?.[0] ?? 'another version'
}
