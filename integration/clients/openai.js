import { Agent, MCPServerStreamableHttp, OpenAIProvider, Runner } from '@openai/agents';

// An agent with the tools of Placet, and what runs it: on Responses, or on Chat Completions.
export async function connect({ mcp, models, token, model, useResponses = true }) {
	const server = new MCPServerStreamableHttp({
		name: 'placet',
		url: mcp,
		requestInit: { headers: { Authorization: `Bearer ${token}` } },
	});
	await server.connect();
	return {
		server,
		agent: new Agent({ name: 'desk', model, mcpServers: [server] }),
		runner: new Runner({
			modelProvider: new OpenAIProvider({ baseURL: `${models}/openai/v1`, apiKey: token, useResponses }),
			tracingDisabled: true, // traces would go to the provider, past Placet
		}),
	};
}
