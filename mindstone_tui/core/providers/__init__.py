"""Those who answer: remote through litellm, embedded, and scripted."""
