import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Config, ConfigError, type Upstream } from '../../config.ts'
import { codeOf } from '../../errors.ts'
import { type ModelSettings, type ModelsConfiguration, misbehaviours, namesCharacter } from './model-settings.ts'

/**
 * The configured models: from `CONFIG_DIR/models.json`, else from `DATA_DIR/models.json`, else the default models.
 * @throws ConfigError for faults of the file, a file that cannot be read, a missing `CONFIG_DIR`, and a wrong `DEFAULT_MODEL`
 */
export async function loadModels(config: Config): Promise<ModelsConfiguration> {
  const { configDirectory, dataDirectory, environment, upstream, defaultModel } = config
  // A missing folder is an error: if it is misspelt or not mounted, the service must not start with other models.
  if (configDirectory !== dataDirectory && !isFolder(configDirectory)) {
    throw new ConfigError([
      `CONFIG_DIR names ${configDirectory}, where there is no folder. Make the folder, or set CONFIG_DIR to another.`,
    ])
  }
  const text = readIfThere(join(configDirectory, 'models.json')) ?? readIfThere(join(dataDirectory, 'models.json'))
  if (text === undefined) return defaultModels(upstream, defaultModel)
  if (defaultModel !== undefined) {
    throw new ConfigError([
      'DEFAULT_MODEL is set beside a models.json. Remove it, and name the model in "default" of that file.',
    ])
  }
  const { readModels } = await import('./models-file.ts')
  return readModels(text, environment)
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

/** A file's text; undefined if there is no such file. @throws ConfigError for a file that cannot be read */
function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw new ConfigError([
      `${path} cannot be read: the system says ${code}. It must be a file that this user may read.`,
    ])
  }
}

/**
 * The models without a `models.json`: the understudies, and the upstream of OPENAI_BASE_URL or OPENAI_API_KEY.
 * @param defaultModel the model that `default` stands for
 * @throws ConfigError if `defaultModel` is not the id of a model
 */
export function defaultModels(upstream: Upstream | undefined, defaultModel = 'understudy'): ModelsConfiguration {
  const understudies = ['understudy', ...misbehaviours.map((name) => `understudy/${name}` as const)] as const
  const models = new Map<string, ModelSettings>(understudies.map((name) => [name, { adapter: name }]))
  if (upstream) {
    const { baseUrl, apiKey } = upstream
    models.set('*', { adapter: 'openai', baseUrl, ...(apiKey === undefined ? {} : { apiKey }) })
  }
  if (namesCharacter(defaultModel)) {
    const advice = 'Give the id of a model; a character is played on it as character/NAME.'
    throw new ConfigError([
      `DEFAULT_MODEL is ${JSON.stringify(defaultModel)}, which is a character and not a model. ${advice}`,
    ])
  }
  if (defaultModel === '*' || !(upstream || models.has(defaultModel))) {
    const advice = upstream
      ? 'Give the id of one model.'
      : 'Without OPENAI_BASE_URL and OPENAI_API_KEY, only the understudies are available.'
    throw new ConfigError([`DEFAULT_MODEL is ${JSON.stringify(defaultModel)}, which is no model. ${advice}`])
  }
  return { default: defaultModel, models }
}
