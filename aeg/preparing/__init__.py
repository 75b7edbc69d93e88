"""What a config needs beside the code: to be gathered where there is a network, and looked for where a job begins."""
