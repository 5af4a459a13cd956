"""o3srl: the policy that earns the most from a log of decisions while its cost stays within a budget."""
